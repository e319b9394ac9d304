"""Values of networks: what is asked for alone is computed, once, from inputs of any kind."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import ArgumentError, NetworkError, ShapeError
from tests.cn.reference import compare
from tests.cn.small_networks import network, one_hidden_layer
from tests.seeds import RANDOM


def test_values_without_samples() -> None:
    A, B = cn.parameter("A", (3, 2)), cn.parameter("B", (2, 4))
    product = cn.tanh(A @ B, name="product")
    stacked = cn.row_stack(product, cn.row_slice(product, 1, 1), name="stacked")
    x = cn.input("x", 4)
    J = cn.sum_elements(stacked @ x, name="J") + 0.5 * cn.l1_norm(product)
    net = network(J)
    compare(net, {"x": RANDOM.normal(size=(4, 6))})
    commands = [str(line) for line in str(net.program({"x": RANDOM.normal(size=(4, 6))})).splitlines()]
    assert sum("product.Propagate" in line for line in commands) == 1


def test_control_inputs_without_samples() -> None:
    c, x = cn.input("c", (2, 3)), cn.input("x", 3)
    net = network(cn.sum_elements(cn.exp(cn.parameter("W", (1, 2)) @ (c @ x))))
    compare(net, {"x": RANDOM.normal(size=(3, 4)), "c": RANDOM.normal(size=(2, 3))})


def test_only_what_is_asked_for_is_computed_and_only_once() -> None:
    net, inputs = one_hidden_layer()
    net.evaluate("hidden", {"x": inputs["x"]})
    assert net.computed == ("times1", "plus1", "hidden")
    net.evaluate("J", inputs)
    assert net.computed == ("times2", "J")
    net.evaluate("posterior", {"x": inputs["x"]})
    assert net.computed == ("softmax1",)
    net.evaluate("posterior", {"x": inputs["x"].copy()})
    assert net.computed == ()
    net.set_parameters({"V": 2 * net.parameters()["V"]})
    net.evaluate("posterior", inputs)
    assert net.computed == ("times2", "softmax1")
    net.evaluate("posterior", {"x": inputs["x"] + 1})
    assert "times1" in net.computed


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda i: i.pop("x"), "missing inputs: 'x'"),
        (lambda i: i.update(x=i["x"][:2]), "expected 3 rows, got 2"),
        (lambda i: i.update(x=i["x"][:, :2]), "samples as for the other inputs"),
        (lambda i: i.update(x=cn.sequences([i["x"]])), "as for the other inputs"),
        (lambda i: i.update(x=i["x"][0]), "expected a matrix of numbers"),
    ],
)
def test_inputs_that_do_not_fit(change, says) -> None:
    net, inputs = one_hidden_layer()
    change(inputs)
    with pytest.raises((ShapeError, NetworkError), match=says):
        net.gradients(inputs)


def test_one_column_for_each_sequence() -> None:
    net = cn.Network(outputs=[cn.copy(cn.input("label", 2, axis="sequence"), name="y")])
    assert net.evaluate("y", {"label": np.ones((2, 3))}).shape == (2, 3)
    with pytest.raises(ShapeError, match="input 'label': expected one column for each sequence, got 1 sequences of 3"):
        net.evaluate("y", {"label": cn.sequences([np.ones((2, 3))])})


def test_numbers_and_arrays_as_operands() -> None:
    x = cn.input("x", 2)
    net = cn.Network(
        outputs=[cn.plus(x, 1, name="a"), cn.times([[1.0, 2.0]], x, name="b"), cn.row_stack(x, [5.0], name="c")]
    )
    a, b, c = net.evaluate(["a", "b", "c"], {"x": np.ones((2, 3))})
    assert (a == 2).all()
    assert (b == 3).all()
    assert (c[2] == 5).all()


def test_a_matrix_for_a_node_of_whole_sequences() -> None:
    """It is no sequence, but may be meant where the frames that are looked at lie on another axis."""
    x, words = cn.input("x", 2), cn.input("words", 2, axis="words")
    net = cn.Network(outputs={"h": cn.macros.fast_lstm(x, 2, name="h"), "a": cn.attention(x, words, words)})
    net.evaluate("a", {"x": np.ones((2, 1)), "words": cn.sequences([np.ones((2, 3))])})
    with pytest.warns(UserWarning, match=r"'x' is a matrix, .* 'h' \(lstm_layer\) looks at other frames"):
        net.evaluate("h", {"x": np.ones((2, 3))})


def test_networks_of_parameters_alone() -> None:
    W = cn.parameter("W", (2, 2), np.eye(2))
    net = cn.Network(cn.l1_norm(W), {"J2": cn.l2_norm(W @ W)})
    assert net.evaluate("J2") == pytest.approx(2**0.5)
    np.testing.assert_array_equal(net.gradients({})["W"], np.eye(2))


def test_entries_of_a_batch_that_are_no_inputs_are_ignored_with_one_warning() -> None:
    net, inputs = one_hidden_layer()
    expected = net.evaluate("posterior", inputs)
    with pytest.warns(UserWarning, match="there is no input 'z', and it is ignored; there is: labels, x"):
        found = net.evaluate("posterior", {**inputs, "z": "anything"})
    np.testing.assert_array_equal(found, expected)
    net.evaluate("posterior", {**inputs, "z": None})  # not again: warnings are errors here


@pytest.mark.parametrize("as_sequences", [False, True])
def test_rows_first(as_sequences) -> None:
    """With layout="rows" nothing else changes but that samples are rows."""
    rng = np.random.default_rng(0)
    x, W = cn.input("x", 3), cn.parameter("W", (2, 3))
    h = cn.tanh(W @ x, name="h")
    nodes = cn.square_error(h, cn.input("y", 2)), {"h": h}
    columns, rows = cn.Network(*nodes), cn.Network(*nodes, layout="rows")
    X, Y = rng.normal(size=(3, 5)), rng.normal(size=(2, 5))
    if as_sequences:
        batch = {"x": cn.sequences([X, X[:, :2]]), "y": cn.sequences([Y, Y[:, :2]])}
        turned = {n: cn.sequences([a.T for a in value], layout="rows") for n, value in batch.items()}
        for one, other in zip(rows.evaluate("h", turned), columns.evaluate("h", batch), strict=True):
            np.testing.assert_array_equal(one, other.T)
    else:
        batch, turned = {"x": X, "y": Y}, {"x": torch.from_numpy(X.T), "y": Y.T.tolist()}
        np.testing.assert_array_equal(rows.evaluate("h", turned), columns.evaluate("h", batch).T)
        wrt = rows.gradients(turned, wrt=["x"])["x"]
        np.testing.assert_array_equal(wrt, columns.gradients(batch, wrt=["x"])["x"].T)
    assert cn.sgd_step(rows.copy(), turned, 0.1) == cn.sgd_step(columns.copy(), batch, 0.1)
    np.testing.assert_array_equal(rows.gradients(turned)["W"], columns.gradients(batch)["W"])
    with pytest.raises(ArgumentError, match='a layout is "columns"'):
        cn.Network(*nodes, layout="C")


@pytest.mark.parametrize(
    "kind", [np.int8, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64, torch.int16]
)
def test_class_indexes_of_any_type(kind) -> None:
    words = cn.input("words", classes=5)
    scores = cn.parameter("W", (5, 3)) @ cn.input("x", 3)
    J = cn.cross_entropy_with_softmax(words, scores, name="J")
    net = cn.Network(J, {"errors": cn.classification_error(words, scores)}, dtype=torch.float64)
    X, numbers = np.random.default_rng(0).normal(size=(3, 4)), np.array([3, 0, 4, 1])
    given = torch.as_tensor(numbers).to(kind) if isinstance(kind, torch.dtype) else numbers.astype(kind)
    given = given[None] if str(given.dtype).startswith("float") else given
    value, gradients = net.criterion_and_gradients({"x": X, "words": given})
    weight = torch.tensor(net.find("W").value, requires_grad=True)
    expected = torch.nn.functional.cross_entropy(
        (weight @ torch.tensor(X)).T, torch.as_tensor(numbers), reduction="sum"
    )
    expected.backward()
    assert value == pytest.approx(expected.item())
    np.testing.assert_allclose(gradients["W"], weight.grad, rtol=1e-10)
    assert (
        net.evaluate("errors", {"x": X, "words": given})
        == (weight.detach().numpy() @ X).argmax(0).__ne__(numbers).sum()
    )


@pytest.mark.parametrize("bad", [[0, 5], [-2, 0], [[0.5, 1.0]]])
def test_numbers_that_are_no_classes(bad) -> None:
    words = cn.input("words", classes=5)
    net = cn.Network(outputs=[words + 0.0])
    with pytest.raises(ShapeError, match=r"input 'words': expected integers 0 ... 4, or -1 for none, got"):
        net.evaluate("plus1", {"words": bad})


def test_a_type_that_does_not_tell_classes_apart() -> None:
    net = cn.Network(outputs=[cn.input("words", classes=5000) + 0.0], dtype=torch.float16)
    with pytest.raises(ShapeError, match="float16 does not tell 5000 classes apart"):
        net.evaluate("plus1", {"words": [1]})


def test_messages_for_arrays_that_lie_otherwise() -> None:
    x, w = cn.input("x", 2), cn.input("w", classes=3)
    J = cn.cross_entropy_with_softmax(w, cn.parameter("W", (3, 2)) @ x)
    rows = cn.Network(J, layout="rows")
    with pytest.raises(ShapeError, match="input 'x': expected 2 columns, got 3: a row is a sample in this network"):
        rows.criterion({"x": np.ones((2, 3)), "w": [0, 1]})
    with pytest.raises(ShapeError, match=r"got shape \(2,\) of float64; class indexes are integers"):
        rows.criterion({"x": np.ones((2, 2)), "w": np.array([0.0, 1.0])})
    with pytest.raises(ShapeError, match=r"got shape \(2, 5, 2\) of float64; sequences are given as cn.sequences"):
        rows.criterion({"x": np.ones((2, 5, 2)), "w": [0, 1]})
    with pytest.raises(NetworkError, match=r"missing inputs: 'w' .*; 'W' was given, did you mean 'w'"):
        rows.criterion({"x": np.ones((2, 2)), "W": [0, 1]})
    with pytest.raises(ShapeError, match=r"'w' is 1 x S; class indexes choose columns by cn\.embedding"):
        cn.parameter("E", (2, 3)) @ w
