"""What a network is asked and what is done to all of its components at once."""

from __future__ import annotations

import pytest
import torch

from nnet3.components import Component
from nnet3.errors import ArgumentError, NetworkError
from nnet3.model.nnet import Nnet

CONFIG = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=a type=NaturalGradientAffineComponent input-dim=5 output-dim=4
component name=drop type=DropoutComponent dim=4 dropout-proportion=0.5
component name=norm type=BatchNormComponent dim=4
component name=b type=LinearComponent input-dim=4 output-dim=2 learning-rate-factor=0.5
component-node name=a component=a input=Append(input, ivector)
component-node name=drop component=drop input=a
component-node name=norm component=norm input=drop
component-node name=b component=b input=norm
output-node name=output input=b
output-node name=second input=norm objective=quadratic
"""


def make(seed: int = 1) -> Nnet:
    return Nnet.from_config(CONFIG, seed=seed)


def test_names_and_columns() -> None:
    nnet = make()
    assert nnet.input_dims == {"input": 3, "ivector": 2}
    assert nnet.output_dims == {"output": 2, "second": 4}
    assert (nnet.node_dim("a"), nnet.node_dim("a_input")) == (4, 5)
    assert nnet.component_of(nnet.node("b")) is nnet.components["b"]  # type: ignore[arg-type]
    assert nnet.num_parameters == 4 * 5 + 4 + 8
    assert str(nnet) == nnet.info()
    assert repr(nnet) == "<Nnet 12 nodes, 4 components, 32 parameters>"
    with pytest.raises(NetworkError, match="the network has no node 'c'"):
        nnet.node("c")
    with pytest.raises(NetworkError, match="no node 'secnd'; did you mean 'second'"):
        nnet.node("secnd")
    with pytest.raises(ArgumentError, match="asked for by its name, a str, got 3"):
        nnet.node(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "new", "is_simple"),
    [
        ("", "", True),
        ("dim=2", "dim=2", True),
        ("=ivector", "=other", False),
        ("name=input", "name=first", False),
        ("name=output", "name=first", False),
    ],
)
def test_names_of_inputs_and_outputs_make_a_network_simple(old: str, new: str, is_simple: bool) -> None:
    config = CONFIG.replace(old, new) if old else CONFIG
    config = config.replace("Append(input, ivector)", f"Append({'first' if 'name=first d' in config else 'input'}, IV)")
    nnet = Nnet.from_config(config.replace("IV", "other" if "=other" in config else "ivector"))
    assert nnet.is_simple == is_simple
    assert ("left-context: 0" in nnet.info()) == is_simple
    if not is_simple:
        with pytest.raises(
            NetworkError, match="left and right context are those of simple networks: an output 'output'"
        ):
            _ = nnet.left_context


def test_config_lines_show_columns_if_asked() -> None:
    lines = make().config_lines()
    assert lines[0] == "input-node name=input dim=3"
    assert lines[2:4] == [
        "component-node name=a component=a input=Append(input, ivector)",
        "component-node name=drop component=drop input=a",
    ]
    with_dims = make().config_lines(dims=True)
    assert with_dims[2] == f"{lines[2]} input-dim=5 output-dim=4"
    assert with_dims[-1] == "output-node name=second input=norm dim=4 objective=quadratic"


def statistics(nnet: Nnet) -> torch.Tensor:
    return nnet.components["norm"].stats_sum  # type: ignore[attr-defined, no-any-return]


def with_statistics() -> Nnet:
    nnet = make()
    norm, x = nnet.components["norm"], torch.randn(6, 4)
    norm.store_stats(x, *norm.propagate(x))
    return nnet


def test_statistics_are_scaled_added_and_zeroed_with_parameters() -> None:
    nnet, other = with_statistics(), with_statistics()
    expected = 3 * statistics(nnet) - 2 * statistics(other)
    nnet.scale_(3.0)
    nnet.add_(-2.0, other)
    torch.testing.assert_close(statistics(nnet), expected)
    parameters = nnet.flat_parameters()[0].clone()
    nnet.zero_stats()
    assert not statistics(nnet).any()
    assert torch.equal(nnet.flat_parameters()[0], parameters)
    nnet.scale_(0.0)
    assert not nnet.flat_parameters()[0].any()
    with pytest.raises(ArgumentError, match="a scale must be a finite number, got nan"):
        nnet.scale_(float("nan"))


def test_networks_that_are_added_have_their_components_in_the_same_order() -> None:
    lines = CONFIG.splitlines()
    other = Nnet.from_config("\n".join([*lines[:3], lines[6], *lines[3:6], *lines[7:]]))
    assert {*other.components} == {*make().components}
    with pytest.raises(NetworkError, match="must have the same components in the same order"):
        make().add_(1.0, other)


def test_learning_rates_are_multiplied_by_factors() -> None:
    nnet = make()
    nnet.set_learning_rate(0.25)
    rates = {name: c.updatable.learning_rate for name, c in nnet.components.items() if c.updatable is not None}
    assert rates == {"a": 0.25, "b": 0.125}
    with pytest.raises(ArgumentError, match="a learning rate must be a finite number >= 0, got -1"):
        nnet.set_learning_rate(-1.0)


def frozen(nnet: Nnet) -> set[bool]:
    return {each.frozen for c in nnet.components.values() for each in c.natural_gradients.values()}


def test_natural_gradient_is_frozen_everywhere() -> None:
    nnet = make()
    assert frozen(nnet) == {False}
    nnet.freeze_natural_gradient(True)
    assert frozen(nnet) == frozen(nnet.copy()) == {True}
    nnet.freeze_natural_gradient(False)
    assert frozen(nnet) == {False}


def modes(nnet: Nnet) -> dict[str, bool]:
    return {name: component.test_mode for name, component in nnet.components.items() if name in ("drop", "norm")}


def test_a_network_in_test_mode_shares_parameters_and_has_modes_of_its_own() -> None:
    nnet = with_statistics()
    nnet.warnings = ["one"]
    tested = nnet.in_test_mode()
    tested.warnings.append("two")
    assert nnet.warnings == ["one"]
    assert modes(nnet) == {"drop": False, "norm": False}
    assert modes(tested) == {"drop": True, "norm": True}
    assert tested.components["b"].parameters()["params"] is nnet.components["b"].parameters()["params"]
    assert statistics(tested) is statistics(nnet)
    nnet.set_test_mode()
    assert modes(nnet) == {"drop": True, "norm": True}
    tested.set_test_mode(False)
    assert modes(nnet) == {"drop": True, "norm": True}
    nnet.set_test_mode(False)
    assert modes(nnet) == {"drop": False, "norm": False}


def draws(nnet: Nnet) -> list[float]:
    return [component.rng.uniform() for component in nnet.components.values()]


def test_each_component_draws_numbers_of_its_own_from_the_seed() -> None:
    nnet = make()
    found = []
    for seed in (3, 3, 4):
        nnet.seed_random(seed)
        found.append(draws(nnet))
    assert found[0] == found[1]
    assert len({*found[0], *found[2]}) == 8


def test_a_gradient_copy_collects_plain_gradients() -> None:
    nnet = with_statistics()
    gradient = nnet.gradient_copy()
    assert not gradient.flat_parameters()[0].any()
    assert not statistics(gradient).any()
    assert nnet.flat_parameters()[0].any()
    updatable = [component.updatable for component in gradient.components.values() if component.updatable is not None]
    assert [(each.learning_rate, each.is_gradient) for each in updatable] == [(1.0, True)] * 2
    assert not nnet.components["a"].is_gradient  # type: ignore[attr-defined]


def test_copies_are_independent() -> None:
    nnet = with_statistics()
    nnet.warnings = ["one"]
    twin = nnet.copy()
    twin.warnings.append("two")
    twin.scale_(2.0)
    assert nnet.warnings == ["one"]
    assert torch.equal(twin.flat_parameters()[0], 2 * nnet.flat_parameters()[0])
    assert torch.equal(statistics(twin), 2 * statistics(nnet))
    assert all(isinstance(component, Component) for component in twin.components.values())
    assert twin.config_lines() == nnet.config_lines()


def test_a_config_and_a_path_are_not_taken_for_each_other(tmp_path: object) -> None:
    for read in (Nnet.from_config, make().apply_config, Nnet.from_xconfig, make().apply_xconfig):
        with pytest.raises(ArgumentError, match="onfig is a str, got 3; from_config_file reads one from a path"):
            read(3)  # type: ignore[operator]
