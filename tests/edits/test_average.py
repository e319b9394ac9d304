"""Averages of networks: parameters and statistics, weights, networks that do not fit."""

from __future__ import annotations

import logging
import math

import pytest
import torch

from nnet3.errors import NetworkError
from nnet3.model.edits.average import average
from nnet3.model.nnet import Nnet

CONFIG = """
input-node name=input dim=3
component name=a type=AffineComponent input-dim=3 output-dim=4
component name=b type=BatchNormComponent dim=4
component-node name=a component=a input=input
component-node name=b component=b input=a
output-node name=output input=b
"""


def _nnet(seed: int) -> Nnet:
    nnet = Nnet.from_config(CONFIG, seed=seed)
    statistics = nnet.components["b"]
    statistics.store_stats(*_forward(statistics, seed))  # type: ignore[arg-type]
    return nnet


def _forward(component: object, seed: int) -> tuple[torch.Tensor, torch.Tensor, object]:
    x = torch.randn(seed + 2, 4, generator=torch.Generator().manual_seed(seed))
    y, memo = component.propagate(x)  # type: ignore[attr-defined]
    return x, y, memo


def _linear(nnet: Nnet) -> torch.Tensor:
    return nnet.components["a"].parameters()["linear_params"]


def test_parameters_and_statistics_are_averaged() -> None:
    models = [_nnet(seed) for seed in (1, 2, 3)]
    before = [_linear(model).clone() for model in models]
    result = average(models)
    assert torch.allclose(_linear(result), sum(before) / 3)  # type: ignore[arg-type]
    counts = [model.components["b"].count for model in models]  # type: ignore[attr-defined]
    assert result.components["b"].count == pytest.approx(sum(counts) / 3)  # type: ignore[attr-defined]
    assert all(torch.equal(_linear(model), old) for model, old in zip(models, before, strict=True))


def test_settings_come_from_the_first() -> None:
    models = [_nnet(1), _nnet(2)]
    models[0].set_learning_rate(0.25)
    assert average(models).components["a"].learning_rate == 0.25  # type: ignore[attr-defined]


def test_weights_that_sum_to_one_are_taken_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    models = [_nnet(1), _nnet(2)]
    with caplog.at_level(logging.WARNING, "nnet3"):
        result = average(models, [0.75, 0.25])
        average(models, [0.75, 0.250001])  # as nearly as one writes 1/3
        assert caplog.messages == []
        assert torch.allclose(_linear(average(models, [3, 1])), _linear(result))
        assert caplog.messages == ["the weights of the networks sum to 4: they are divided by that"]
        assert torch.allclose(_linear(average(models, [-3, -1])), _linear(result))
    assert caplog.messages[1:] == ["the weights of the networks sum to -4: they are divided by that"]
    assert torch.allclose(_linear(result), 0.75 * _linear(models[0]) + 0.25 * _linear(models[1]))


def test_one_network_is_its_own_average() -> None:
    nnet = _nnet(1)
    result = average([nnet])
    assert result is not nnet
    assert torch.equal(_linear(result), _linear(nnet))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "expected one weight for each of 2 networks, got 1 weights"),
        ([1.0, -1.0], "divided by their sum, which must be finite and not 0, got 0"),
        ([0.1 + 0.2, -0.3], "must be finite and not 0, got 5.55112e-17"),
        ([1.0, math.nan], "must be finite and not 0, got nan"),
        ([math.inf, -math.inf], "must be finite and not 0, got nan"),
        ([1e308, 1e308], "must be finite and not 0, got inf"),
    ],
)
def test_weights_that_cannot_be_used(weights: list[float], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        average([_nnet(1), _nnet(2)], weights)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("component=a input", "component=a2 input", "the first network has component 'a', but network 2 has not"),
        (
            "type=AffineComponent",
            "type=NaturalGradientAffineComponent",
            "<NaturalGradientAffineComponent 3 -> 4> in net",
        ),
        ("input-dim=3", "input-dim=6", "component 'a' is <AffineComponent 3 -> 4> in the first network, but <Aff"),
    ],
)
def test_networks_that_do_not_fit(old: str, new: str, message: str) -> None:
    config = CONFIG.replace(old, new).replace(
        "input=input\n", f"input={'Append(input, input)' if '=6' in new else 'input'}\n"
    )
    other = Nnet.from_config(config.replace("name=a type", "name=a2 type") if "a2" in new else config)
    with pytest.raises(NetworkError, match=message):
        average([_nnet(1), other])


def test_components_in_another_order_are_not_averaged() -> None:
    lines = CONFIG.splitlines()
    other = Nnet.from_config("\n".join([*lines[:2], lines[3], lines[2], *lines[4:]]))
    with pytest.raises(NetworkError, match="the first network and network 2 do not have their components in the same"):
        average([_nnet(1), other])


def test_networks_go_by_the_names_that_are_given() -> None:
    other = Nnet.from_config(CONFIG.replace("type=AffineComponent", "type=NaturalGradientAffineComponent"))
    message = r"is <AffineComponent 3 -> 4> in 1\.raw, but <NaturalGradientAffineComponent 3 -> 4> in 3\.raw"
    with pytest.raises(NetworkError, match=message):
        average([_nnet(1), _nnet(2), other], names=["1.raw", "2.raw", "3.raw"])


def test_one_component_of_several_is_named() -> None:
    more = "".join(f"component name={name} type=AffineComponent input-dim=2 output-dim=2\n" for name in ("x", "y"))
    with pytest.raises(NetworkError, match=r"network 2 has components 'x' \.\.\., but the first network has not"):
        average([_nnet(1), Nnet.from_config(CONFIG + "\n" + more)])
    with pytest.raises(NetworkError, match=r"network 2 has component 'x', but"):
        average([_nnet(1), Nnet.from_config(CONFIG + "\n" + more.split("\n")[0])])


def test_no_networks_have_no_average() -> None:
    with pytest.raises(NetworkError, match="no networks to average"):
        average([])
