"""Steps onto a model, with their length limited by component and as a whole."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from nnet3.components import RandomSource
from nnet3.model.nnet import Nnet
from nnet3.training.train.update import add_with_max_change, constrain_orthonormal, make_more_orthonormal_

CONFIG = """
input-node name=input dim=1
component name=a type=AffineComponent input-dim=1 output-dim=1 max-change={a}
component name=b type=AffineComponent input-dim=1 output-dim=1 max-change={b}
component-node name=a component=a input=input
component-node name=b component=b input=a
output-node name=output input=b
"""


def networks(length_a: float, length_b: float, a: float = 0.0, b: float = 0.0) -> tuple[Nnet, Nnet]:
    """A model of zeros and a delta whose components have these norms."""
    nnet = Nnet.from_config(CONFIG.format(a=a, b=b))
    nnet.scale_(0.0)
    delta = nnet.copy()
    for name, length in (("a", length_a), ("b", length_b)):
        linear, bias = delta.components[name].parameters().values()
        linear.fill_(0.6 * length)
        bias.fill_(-0.8 * length)
    return nnet, delta


def lengths(nnet: Nnet) -> list[float]:
    return [math.sqrt(square) for square in nnet.squared_norms().values()]


def test_the_worked_example_of_the_page() -> None:
    nnet, delta = networks(3.0, 1.0, a=0.75)
    assert add_with_max_change(nnet, delta, 1.0).not_finite is None
    assert lengths(nnet) == pytest.approx([0.6, 0.8])
    assert nnet.components["a"].parameters()["bias_params"].item() == pytest.approx(-0.48)
    assert lengths(delta) == pytest.approx([3.0, 1.0]), "the delta stays as it is"


def test_without_limits_the_whole_change_is_added() -> None:
    nnet, delta = networks(3.0, 4.0)
    assert add_with_max_change(nnet, delta, 0.0, scale=-0.5).not_finite is None
    assert lengths(nnet) == pytest.approx([1.5, 2.0])
    assert nnet.components["a"].parameters()["bias_params"].item() > 0


def test_the_whole_limit_scales_all_alike() -> None:
    nnet, delta = networks(3.0, 4.0)
    assert add_with_max_change(nnet, delta, 1.0).not_finite is None
    assert lengths(nnet) == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_limits_are_of_the_scaled_step_and_can_be_scaled(sign: float) -> None:
    nnet, delta = networks(3.0, 4.0, a=1.0, b=1.0)
    assert add_with_max_change(nnet, delta, 0.0, scale=0.1 * sign).not_finite is None
    assert lengths(nnet) == pytest.approx([0.3, 0.4])
    nnet, delta = networks(3.0, 4.0, a=1.0, b=1.0)
    update = add_with_max_change(nnet, delta, 0.5, scale=0.5 * sign)
    assert update.shortened == pytest.approx({"a": 1 / 1.5, "b": 0.5})
    assert (update.limits, update.limit, update.updatable) == ({"a": 1.0, "b": 1.0}, 0.5, ("a", "b"))
    assert update.factor == pytest.approx(math.sqrt(0.125))
    assert lengths(nnet) == pytest.approx([math.sqrt(0.125)] * 2)
    assert nnet.components["a"].parameters()["linear_params"].item() * sign > 0
    nnet, delta = networks(3.0, 4.0, a=1.0, b=8.0)
    assert add_with_max_change(nnet, delta, 0.0, limit=0.25).not_finite is None
    assert lengths(nnet) == pytest.approx([0.25, 2.0])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_steps_that_are_not_finite_are_refused(value: float) -> None:
    nnet, delta = networks(1.0, 1.0)
    delta.components["b"].parameters()["bias_params"].fill_(value)
    assert add_with_max_change(nnet, delta, 2.0).not_finite == "b"
    assert torch.cat(nnet.flat_parameters()).tolist() == [0.0] * 4


def test_a_step_whose_parts_are_finite_may_be_infinite_as_a_whole() -> None:
    nnet, delta = (each.to(dtype=torch.float64) for each in networks(0.0, 0.0))
    for name in "ab":
        delta.components[name].parameters()["bias_params"].fill_(1.2e154)
    assert all(math.isfinite(square) for square in delta.squared_norms().values())
    assert add_with_max_change(nnet, delta, 2.0).not_finite is not None
    assert torch.cat(nnet.flat_parameters()).tolist() == [0.0] * 4


def test_worked_examples_become_more_orthonormal() -> None:
    for start, end in ((2.0, -1.0), (1.2, 0.936)):
        m = torch.tensor([[start, 0.0]])
        make_more_orthonormal_(m, 1.0)
        torch.testing.assert_close(m, torch.tensor([[end, 0.0]]))


@pytest.mark.parametrize("shape", [(4, 7), (7, 4)])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_a_fixed_scale_becomes_every_singular_value(shape: tuple[int, int], scale: float) -> None:
    torch.manual_seed(0)
    m = torch.nn.init.orthogonal_(torch.empty(shape, dtype=torch.float64)) * scale
    m += 0.1 * scale * torch.randn(shape, dtype=torch.float64)
    distances = []
    for _ in range(6):
        make_more_orthonormal_(m, scale)
        distances.append(float((torch.linalg.svdvals(m) / scale - 1).abs().max()))
    assert distances[-1] < 1e-9
    assert all(later < 2 * earlier**2 + 1e-12 for earlier, later in pairwise(distances))


def test_a_floating_scale_makes_singular_values_equal_and_keeps_the_size() -> None:
    torch.manual_seed(0)
    m = 3.0 * torch.randn(5, 20, dtype=torch.float64)
    for _ in range(60):
        before = m.clone()
        make_more_orthonormal_(m, -1.0)
        assert abs(float(((m - before) * before).sum())) < 1e-9 * float(before.square().sum())
    values = torch.linalg.svdvals(m)
    assert float(values.max() / values.min() - 1) < 1e-9
    assert float(values.mean()) > 5.0


@pytest.mark.parametrize(("ratio", "speed"), [(1.05, 0.125), (1.2, 0.0625), (1.8, 0.03125)])
def test_a_floating_scale_goes_slowly_while_singular_values_are_far_apart(ratio: float, speed: float) -> None:
    m = torch.diag(torch.tensor([1.0, ratio], dtype=torch.float64))
    p = m @ m.t()
    square = float((p @ p).trace() / p.trace())
    expected = m - 4 * speed / square * (p - square * torch.eye(2)) @ m
    make_more_orthonormal_(m, -0.5)
    torch.testing.assert_close(m, expected)


def test_a_matrix_of_zeros_stays() -> None:
    m = torch.zeros(2, 3)
    make_more_orthonormal_(m, -1.0)
    assert m.tolist() == torch.zeros(2, 3).tolist()


def test_a_quarter_of_the_components_is_treated_each_time() -> None:
    config = "input-node name=input dim=3\n"
    for name, constraint in (("a", 1.0), ("b", -1.0), ("free", 0.0)):
        config += f"component name={name} type=LinearComponent input-dim=3 output-dim=2 "
        config += f"orthonormal-constraint={constraint}\ncomponent-node name={name} component={name} input=input\n"
    nnet = Nnet.from_config(config + "output-node name=output input=Sum(a, Sum(b, free))\n", seed=1)
    start = {name: component.parameters()["params"].clone() for name, component in nnet.components.items()}
    changed = dict.fromkeys(start, 0)
    rng = RandomSource(5)
    for _ in range(400):
        constrain_orthonormal(nnet, rng)
        for name, component in nnet.components.items():
            params = component.parameters()["params"]
            changed[name] += not torch.equal(params, start[name])
            params.copy_(start[name])
    assert changed["free"] == 0
    assert 70 < changed["a"] < 130
    assert 70 < changed["b"] < 130
