"""nnet3 components as nodes: values, gradients, training, saving; those that look at other frames."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn, components
from nnet3.cn.shape import Shape
from nnet3.components import Properties
from nnet3.errors import ShapeError
from tests.cn.reference import columns
from tests.seeds import RANDOM
from tools.component_samples import SAMPLES


def affine() -> components.Component:
    made = components.create("NaturalGradientAffineComponent", "input-dim=3 output-dim=4")
    for tensor in made.parameters().values():
        tensor.copy_(torch.from_numpy(RANDOM.normal(size=tuple(tensor.shape))))
    return made


def network(dtype: torch.dtype = torch.float64) -> cn.Network:
    h = cn.component("TanhComponent dim=4", cn.component(affine(), cn.input("x", 3), name="affine"))
    return cn.Network(cn.square_error(cn.parameter("V", (2, 4)) @ h, cn.input("y", 2), name="J"), {"h": h}, dtype=dtype)


def inputs() -> dict[str, cn.Sequences]:
    return {n: cn.sequences([RANDOM.normal(size=(r, t)) for t in (4, 2)]) for n, r in (("x", 3), ("y", 2))}


def test_values_and_gradients() -> None:
    net, batch = network(), inputs()
    p = net.parameters()
    W, b = p["affine.linear_params"], p["affine.bias_params"]
    x = np.concatenate(list(batch["x"]), 1)
    h = np.tanh(W @ x + b.reshape(-1, 1))
    np.testing.assert_allclose(columns(net.evaluate("h", batch)), h, rtol=1e-10)
    slope = (p["V"].T @ (p["V"] @ h - np.concatenate(list(batch["y"]), 1))) * (1 - h**2)
    found = net.gradients(batch)
    np.testing.assert_allclose(found["affine.linear_params"], slope @ x.T, rtol=1e-9)
    np.testing.assert_allclose(found["affine.bias_params"].reshape(-1), slope.sum(1), rtol=1e-9)


def test_the_gradient_check_moves_their_parameters(capsys) -> None:
    check = cn.check_gradients(network(), inputs())
    assert {row.parameter for row in check} == {"V", "affine.linear_params", "affine.bias_params"}
    assert check.worst < 1e-5


def test_a_component_in_a_loop() -> None:
    x = cn.input("x", 2)
    d = cn.delay(None, dim=4)
    h = d.connect(cn.tanh(cn.component(affine(), cn.row_stack(x, cn.row_slice(d, 0, 1)), name="affine"), name="h"))
    net = cn.Network(cn.l2_norm(h), dtype=torch.float64)
    batch = {"x": cn.sequences([RANDOM.normal(size=(2, 5))])}
    assert cn.check_gradients(net, batch).worst < 1e-5


def test_only_one_that_reorders_indexes_is_asked_for_an_order(monkeypatch) -> None:
    """As it is promised to those who write components."""
    monkeypatch.setattr(components.Component, "reorder_indexes", None)
    config = "StatisticsPoolingComponent input-dim=3 left-context=2 right-context=0"
    net = cn.Network(outputs={"o": cn.component(config, cn.input("x", 3))})
    assert net.evaluate("o", {"x": cn.sequences([np.ones((3, 4))])})[0].shape == (2, 4)


def test_one_that_looks_at_other_frames_sees_zeros_beyond_the_ends() -> None:
    x = cn.input("x", 2)
    tdnn = cn.component("TdnnComponent input-dim=2 output-dim=3 time-offsets=-1,0,2", x, name="tdnn")
    net = cn.Network(cn.l2_norm(tdnn), {"tdnn": tdnn}, dtype=torch.float64)
    value = RANDOM.normal(size=(2, 5))
    batch = {"x": cn.sequences([value, value[:, :2]])}
    padded = np.concatenate([np.zeros((2, 1)), value, np.zeros((2, 2))], 1)
    spliced = np.concatenate([padded[:, k : k + 5] for k in (0, 1, 3)])
    p = net.parameters()
    expected = p["tdnn.linear_params"] @ spliced + p["tdnn.bias_params"].reshape(-1, 1)
    np.testing.assert_allclose(net.evaluate("tdnn", batch)[0], expected, rtol=1e-9)
    assert cn.check_gradients(net, batch).worst < 1e-5


def test_one_after_another_sees_zeros_not_what_the_first_has_beyond_the_ends() -> None:
    x = cn.input("x", 2)
    first = cn.component("TdnnComponent input-dim=2 output-dim=3 time-offsets=-1,1", x, name="first")
    second = cn.component("TdnnComponent input-dim=3 output-dim=1 time-offsets=-1,0,1", cn.copy(first), name="second")
    net = cn.Network(cn.l2_norm(second), {"first": first, "second": second}, dtype=torch.float64)
    batch = {"x": cn.sequences([RANDOM.normal(size=(2, 5))])}
    h = net.evaluate("first", batch)[0]
    padded = np.concatenate([np.zeros((3, 1)), h, np.zeros((3, 1))], 1)
    p = net.parameters()
    spliced = np.concatenate([padded[:, k : k + 5] for k in range(3)])
    expected = p["second.linear_params"] @ spliced + p["second.bias_params"].reshape(-1, 1)
    np.testing.assert_allclose(net.evaluate("second", batch)[0], expected, rtol=1e-9)
    assert cn.check_gradients(net, batch).worst < 1e-5


def test_training_freezing_and_files(tmp_path) -> None:
    net, batch = network(torch.float32), inputs()
    history = cn.train(net, [batch], learning_rate=0.2, epochs=30)
    assert history[-1] < 0.5 * history[0]
    net.freeze("affine")
    before = net.parameters()["affine.linear_params"]
    cn.train(net, [batch], torch.optim.Adam(list(net.tensors().values())), epochs=2)
    np.testing.assert_array_equal(net.parameters()["affine.linear_params"], before)
    assert set(net.gradients(batch)) == {"V"}
    cn.save(net, tmp_path / "net.cn")
    again = cn.load(tmp_path / "net.cn")
    np.testing.assert_allclose(columns(again.evaluate("h", batch)), columns(net.evaluate("h", batch)), rtol=1e-5)
    assert set(again.gradients(batch)) == {"V"}


def test_changed_parameters_are_noticed() -> None:
    net, batch = network(), inputs()
    first = columns(net.evaluate("h", batch))
    net.set_parameters({"affine.bias_params": net.parameters()["affine.bias_params"] + 1})
    assert not np.allclose(columns(net.evaluate("h", batch)), first)
    with pytest.raises(ShapeError, match=r"'affine\.bias_params': expected"):
        net.set_parameters({"affine.bias_params": np.zeros(9)})


def test_a_component_of_one_row() -> None:
    x = cn.input("x", 1)
    node = cn.component("TanhComponent dim=1", x, name="t")
    np.testing.assert_allclose(cn.Network(outputs=node).evaluate("t", {"x": np.ones((1, 2))}), np.tanh(1), rtol=1e-6)


def test_components_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match="component needs an operand with samples"):
        cn.component("TanhComponent dim=4", cn.parameter("W", (4, 4)))
    with pytest.raises(ShapeError, match="TanhComponent needs 4 rows"):
        cn.component("TanhComponent dim=4", cn.input("x", 3))


TRAINED = [
    name
    for name, config in SAMPLES.items()
    if {Properties.SIMPLE, Properties.UPDATABLE} <= set(components.create(name, config).properties)
]


@pytest.mark.parametrize("name", TRAINED)
def test_frozen_components_stay_as_they_are_beside_others_that_are_trained(name) -> None:
    made = components.create(name, SAMPLES[name], seed=1)
    frozen = cn.component(made, cn.parameter("U", (made.input_dim, 4), seed=1) @ cn.input("x", 4), name="frozen")
    frozen.operation.trainable = False
    dim = made.output_dim
    batch_norm = cn.component(f"BatchNormComponent dim={dim}", frozen)  # its statistics are taken
    other = cn.component(f"AffineComponent input-dim={dim} output-dim=2", batch_norm, name="other")
    net = cn.Network(cn.sum_elements(cn.tanh(other)))
    before = frozen.operation.options()["text"]
    gradients = net.gradients({"x": torch.randn(4, 5, generator=torch.Generator().manual_seed(1))})
    assert set(gradients) == {"U", "other.linear_params", "other.bias_params"}
    assert gradients["other.bias_params"].any()
    assert frozen.operation.options()["text"] == before
    info = frozen.operation.info("k", [Shape(made.input_dim)], frozen.shape, [True])
    assert not info.learns
