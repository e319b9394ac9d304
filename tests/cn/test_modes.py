"""Modes: values are computed in test mode; gradients in training mode, or in test mode after `eval`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.cn.nodes.component import ComponentOperation
from nnet3.errors import TrainingError
from tests.seeds import RANDOM

LINEAR = "NaturalGradientAffineComponent input-dim=3 output-dim=3 param-stddev=1"
BATCH_NORM = "BatchNormComponent dim=3"
DROPOUT = "DropoutComponent dim=3 dropout-proportion=0.5"
COMPOSITE = (
    "CompositeComponent num-components=3 component1='type=AffineComponent input-dim=3 output-dim=3' "
    "component2='type=BatchNormComponent dim=3' component3='type=TanhComponent dim=3'"
)


def with_component(config: str) -> tuple[cn.Network, dict[str, np.ndarray]]:
    x, y = cn.input("x", 3), cn.input("y", 3)
    made = cn.component(config, cn.component(LINEAR, x, name="below"), name="it")
    net = cn.Network(cn.square_error(made, y, name="J"), {"it": made}, dtype=torch.float64)
    return net, {"x": RANDOM.normal(1, 2, size=(3, 50)), "y": RANDOM.normal(size=(3, 50))}


def normalized(below: np.ndarray, data: np.ndarray) -> np.ndarray:
    mean, variance = data.mean(1, keepdims=True), data.var(1, keepdims=True)
    return (below - mean) / np.sqrt(variance + 1e-3)


def test_dropout_is_off_in_values() -> None:
    net, inputs = with_component(DROPOUT)
    below = net.evaluate("below", inputs)
    np.testing.assert_allclose(net.evaluate("it", inputs), 0.5 * below)  # as Kaldi's test mode scales
    assert net.criterion(inputs) == net.criterion(inputs) != net.criterion(inputs, training=True)
    assert net.criterion(inputs, training=True) != net.criterion(inputs, training=True)


def test_batch_norm_normalizes_by_statistics_in_values() -> None:
    net, inputs = with_component(BATCH_NORM)
    with pytest.warns(RuntimeWarning, match="has no statistics"):
        np.testing.assert_allclose(net.evaluate("it", inputs), net.evaluate("below", inputs) / np.sqrt(1.001))
    below = net.evaluate("below", inputs)
    net.gradients(inputs)  # only `backward` collects statistics
    net.criterion(inputs, training=True)
    net.touch()
    np.testing.assert_allclose(net.evaluate("it", inputs), below / np.sqrt(1.001))
    net.backward(inputs)
    few = {name: value[:, :5] for name, value in inputs.items()}
    np.testing.assert_allclose(net.evaluate("it", few), normalized(below[:, :5], below), rtol=1e-6)
    own = 0.5 * ((normalized(below[:, :5], below[:, :5]) - few["y"]) ** 2).sum()
    assert net.criterion(few, training=True) == pytest.approx(own)
    net.backward(few)
    both = np.concatenate([below, below[:, :5]], 1)
    np.testing.assert_allclose(net.evaluate("it", few), normalized(below[:, :5], both), rtol=1e-6)


def test_parts_of_a_composite_have_modes_too() -> None:
    net, inputs = with_component(COMPOSITE)
    net.backward(inputs)
    before = net.evaluate("it", inputs)
    np.testing.assert_array_equal(net.touch() or net.evaluate("it", inputs), before)
    (operation,) = [n.operation for n in net.nodes if net.names[n] == "it"]
    assert isinstance(operation, ComponentOperation)
    assert [part.test_mode for part in operation.parts] == [False] * 4
    assert operation.parts[2].count == 50
    net.backward(inputs)
    assert operation.parts[2].count == 100


@pytest.mark.parametrize("config", [DROPOUT, BATCH_NORM, COMPOSITE], ids=["dropout", "batch-norm", "composite"])
def test_gradients_in_test_mode(config, capsys) -> None:
    net, inputs = with_component(config)
    net.backward({name: value[:, :20] for name, value in inputs.items()})
    assert net.criterion(inputs, training=True) != net.criterion(inputs)
    value, gradients = net.criterion_and_gradients(inputs, training=False)
    assert value == net.criterion(inputs)
    assert net.eval() is net
    assert net.criterion_and_gradients(inputs)[0] == value
    for name, gradient in net.gradients(inputs).items():
        np.testing.assert_array_equal(gradient, gradients[name])
    net.backward(inputs)
    assert net.criterion(inputs) == value  # test mode leaves the statistics as they are
    for name, tensor in net.tensors().items():
        of_file = gradients[name] if "." in name else gradients[name].T
        np.testing.assert_array_equal(tensor.grad.numpy(), of_file)
    step = 1e-6
    bias = net.parameters()["below.bias_params"]
    ends = []
    for moved in (bias + step * np.eye(3)[0], bias - step * np.eye(3)[0]):
        net.set_parameters({"below.bias_params": moved})
        ends.append(net.criterion(inputs))
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(gradients["below.bias_params"][0], rel=1e-5)
    assert net.train().training
    assert net.copy().training
    assert not net.eval().copy().training


def test_a_component_in_test_mode_stays_so_in_training() -> None:
    net, inputs = with_component(DROPOUT + " test-mode=true")
    assert net.criterion(inputs, training=True) == net.criterion(inputs)


def test_the_gradient_check_keeps_one_mask_of_components(capsys) -> None:
    net, inputs = with_component(DROPOUT)
    assert cn.check_gradients(net, inputs, max_elements=4).worst < 1e-4


def test_random_draws_follow_the_seed() -> None:
    net, inputs = with_component(DROPOUT)
    found = []
    for _ in range(2):
        net.seed_random(3)
        found.append([net.criterion(inputs, training=True) for _ in range(2)])
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]
    net.seed_random(3)
    assert [net.copy().criterion(inputs, training=True) for _ in range(2)] == found[0][:1] * 2


def test_our_own_dropout_is_off_in_values_after_a_gradient() -> None:
    x = cn.input("x", 3)
    net = cn.Network(cn.sum_elements(cn.dropout(0.5, cn.parameter("W", (3, 3)) @ x, name="d"), name="J"))
    inputs = {"x": RANDOM.normal(size=(3, 20))}
    net.gradients(inputs)
    np.testing.assert_array_equal(net.evaluate("d", inputs), net.evaluate("times1", inputs))
    np.testing.assert_allclose(
        net.gradients(inputs, training=False)["W"], np.tile(inputs["x"].sum(1), (3, 1)), rtol=1e-5
    )


@pytest.mark.parametrize("config", [BATCH_NORM, COMPOSITE], ids=["batch-norm", "composite"])
def test_a_minibatch_that_is_not_finite_leaves_no_statistics(config) -> None:
    net, inputs = with_component(config)
    net.backward(inputs)
    before = net.evaluate("it", inputs)
    with pytest.raises(TrainingError, match="input 'x' holds nan"):
        cn.sgd_step(net, {**inputs, "x": np.full((3, 50), np.nan)}, 0.1)
    np.testing.assert_array_equal(net.evaluate("it", inputs), before)
