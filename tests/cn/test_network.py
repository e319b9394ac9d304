"""Whole networks against an independent computation by autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.driver import ComputationCache
from nnet3.errors import ArgumentError, GradientError, NetworkError, ShapeError
from tests.cn.reference import columns, compare
from tests.seeds import RANDOM


def network(*args, **options) -> cn.Network:
    return cn.Network(*args, dtype=torch.float64, **options)


def one_hidden_layer() -> tuple[cn.Network, dict[str, np.ndarray]]:
    x, labels = cn.input("x", 3), cn.input("labels", 2)
    W, b, V = cn.parameter("W", (4, 3)), cn.parameter("b", (4, 1), 0.1), cn.parameter("V", (2, 4))
    o = V @ cn.sigmoid(W @ x + b, name="hidden")
    J = cn.cross_entropy_with_softmax(labels, o, name="J")
    net = network(J, {"posterior": cn.softmax(o)})
    return net, {"x": RANDOM.normal(size=(3, 5)), "labels": np.eye(2)[:, [0, 1, 0, 1, 0]]}


def batch(rows: int, lengths=(4, 2, 3)) -> cn.Sequences:
    return cn.sequences([RANDOM.normal(size=(rows, length)) for length in lengths])


def recurrence(lag: int = 1, default: float = 0.0, initial=None) -> cn.Network:
    x = cn.input("x", 3)
    d = cn.delay(None, lag, default, dim=4, name="d", initial=initial)
    h = d.connect(cn.tanh(cn.parameter("W", (4, 3)) @ x + cn.parameter("R", (4, 4)) @ d, name="h"))
    return network(cn.square_error(cn.parameter("V", (2, 4)) @ h, cn.input("y", 2), name="J"), {"h": h})


def test_one_hidden_layer() -> None:
    compare(*one_hidden_layer())


@pytest.mark.parametrize("lag", [1, 2, -1, -3])
@pytest.mark.parametrize("default", [0.0, 0.7])
@pytest.mark.parametrize("lengths", [(4, 2, 3), (3, 3), (1,)])
def test_recurrence(lag, default, lengths) -> None:
    net = recurrence(lag, default)
    compare(net, {"x": batch(3, lengths), "y": batch(2, lengths)})


@pytest.mark.parametrize("lag", [1, 2, -2])
def test_initial_state(lag) -> None:
    net = recurrence(lag, initial=cn.input("state", 4))
    lengths = (4, 2, 3)
    compare(net, {"x": batch(3, lengths), "y": batch(2, lengths), "state": batch(4, (abs(lag),) * 3)})


def test_forward_and_backward_in_time_and_nested_loops() -> None:
    x = cn.input("x", 3)
    R = cn.parameter("R", (3, 3))
    forward = cn.delay(None, dim=3)
    forward.connect(h := cn.tanh(x + R @ forward, name="h"))
    backward = cn.delay(None, lag=-1, dim=3)
    backward.connect(g := cn.sigmoid(h + R @ backward, name="g"))
    outer, inner = cn.delay(None, lag=2, dim=3), cn.delay(None, lag=1, default=0.2, dim=3)
    inner.connect(a := cn.tanh(cn.row_stack(cn.row_slice(g, 1, 2), cn.row_slice(outer, 0, 1)) - inner, name="a"))
    outer.connect(b := cn.element_times(a, g, name="b"))
    J = cn.sum_elements(b) + cn.l2_norm(R) * 0.1
    compare(network(J), {"x": batch(3)})


def test_delays_of_delays_and_of_inputs() -> None:
    x = cn.input("x", 2)
    twice = cn.delay(cn.delay(x, 1, 0.5), -2, 0.25)
    J = cn.sum_elements(cn.tanh(cn.diag_times(cn.parameter("d", (2, 1), 0.3), twice * x) + cn.delay(x, -1)))
    compare(network(J, {"twice": twice}), {"x": batch(2)})


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


def test_several_weighted_criteria() -> None:
    x = cn.input("x", 3)
    W = cn.parameter("W", (2, 3))
    first, second = cn.l2_norm(W @ x), cn.l1_norm(W)
    compare(network({first: 1.0, second: -0.3}), {"x": RANDOM.normal(size=(3, 4))})


def test_a_node_that_is_an_operand_twice() -> None:
    x = cn.input("x", 3)
    h = cn.parameter("W", (3, 3)) @ x
    J = cn.sum_elements((h + h) * (h - cn.tanh(h)) - h * h)
    compare(network(J), {"x": RANDOM.normal(size=(3, 4))})


def test_shared_parameters_and_sharing_inside_sums() -> None:
    x = cn.input("x", 3)
    W = cn.parameter("W", (3, 3))
    h = cn.tanh(W @ x)
    J = cn.square_error(W @ h + h, h * cn.sigmoid(W @ h))
    compare(network(J), {"x": RANDOM.normal(size=(3, 4))})


def test_gradients_of_other_nodes() -> None:
    net, inputs = one_hidden_layer()
    found = net.gradients(inputs, wrt=["x", "hidden", "labels"])
    hidden = found["hidden"]
    assert hidden.shape == (4, 5)
    posterior = net.evaluate("posterior", inputs)
    expected = net.find("V").value.T @ (posterior - inputs["labels"])
    np.testing.assert_allclose(hidden, expected, rtol=1e-8)
    slope = expected * (h := net.evaluate("hidden", inputs)) * (1 - h)
    np.testing.assert_allclose(found["x"], net.find("W").value.T @ slope, rtol=1e-8)
    np.testing.assert_allclose(found["labels"], -np.log(posterior), rtol=1e-8)


def test_gradients_of_nodes_that_the_criterion_does_not_need_are_zero() -> None:
    W, x = cn.parameter("W", (2, 3)), cn.input("x", 3)
    others = [cn.scale(2.0, W, name="twice"), cn.exp(x, name="exp")]
    net = cn.Network(cn.l2_norm(W @ x), others, dtype=torch.float64)
    found = net.gradients({"x": RANDOM.normal(size=(3, 5))}, wrt=others)
    for name, shape in (("twice", (2, 3)), ("exp", (3, 5))):
        np.testing.assert_array_equal(found[name], np.zeros(shape), strict=True)


def test_the_gradient_of_a_node_in_a_loop_goes_round_it() -> None:
    net = recurrence()
    inputs = {"x": batch(3, (3,)), "y": batch(2, (3,))}
    total = net.gradients(inputs, wrt=["h"])["h"][0]
    V, R = net.find("V").value, net.find("R").value
    h = net.evaluate("h", inputs)[0]
    own = V.T @ (V @ h - inputs["y"][0])
    expected = own.copy()
    for t in (1, 0):
        expected[:, t] += R.T @ (expected[:, t + 1] * (1 - h[:, t + 1] ** 2))
    np.testing.assert_allclose(total, expected, rtol=1e-8)


def test_frozen_parameters_have_no_gradient() -> None:
    net, inputs = one_hidden_layer()
    every = net.gradients(inputs)
    net.freeze("W", "b")
    assert set(net.gradients(inputs)) == {"V"}
    assert ":gradient" not in str(net.program(inputs)).split("V:gradient")[1]
    net.unfreeze("W", "b")
    np.testing.assert_array_equal(net.gradients(inputs)["W"], every["W"])


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


def test_time_stamps_with_other_samples() -> None:
    net = recurrence()
    for lengths in ((4, 2), (3,), (4, 2)):
        inputs = {"x": batch(3, lengths), "y": batch(2, lengths)}
        compare(net, inputs)


def test_batches_of_the_same_lengths_share_a_program() -> None:
    net = recurrence(initial=cn.input("state", 4))
    for lengths in ((2, 4, 3), (4, 3, 2), (3, 2, 4)):
        state = RANDOM.normal(size=(4, 3))
        inputs = {
            "x": batch(3, lengths),
            "y": batch(2, lengths),
            "state": cn.sequences([state[:, i : i + 1] for i in range(3)]),
        }
        compare(net, inputs)
        again = net.evaluate("h", {**inputs, "state": state})
        np.testing.assert_array_equal(columns(again), columns(net.evaluate("h", inputs)))
    assert len(net._runners) == 2


def test_the_optimizer_changes_nothing() -> None:
    inputs = {"x": batch(3), "y": batch(2)}
    found = []
    for optimize in (True, False):
        net = recurrence()
        net.optimize = optimize
        found.append((net.evaluate("h", inputs), net.gradients(inputs)))
    np.testing.assert_allclose(columns(found[0][0]), columns(found[1][0]), rtol=1e-12)
    for name, gradient in found[0][1].items():
        np.testing.assert_allclose(gradient, found[1][1][name], rtol=1e-10)


def test_criteria_without_gradient() -> None:
    x, y = cn.input("x", 3), cn.input("y", 3)
    W = cn.parameter("W", (3, 3))
    errors = cn.classification_error(W @ x, y, name="errors")
    net = network(errors)
    inputs = {"x": RANDOM.normal(size=(3, 4)), "y": np.eye(3)[:, [0, 1, 2, 0]]}
    assert net.evaluate("errors", inputs) <= 4
    with pytest.raises(GradientError, match=r"'errors': classification_error has no gradient"):
        net.gradients(inputs)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda i: i.pop("x"), "missing inputs: 'x'"),
        (lambda i: i.update(z=1), "there is no input 'z'"),
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


def test_graphs_that_cannot_be() -> None:
    x = cn.input("x", 3)
    with pytest.raises(NetworkError, match="criterion or an output"):
        cn.Network()
    with pytest.raises(ShapeError, match="a criterion is 1 x 1"):
        cn.Network(cn.tanh(x))
    with pytest.raises(NetworkError, match="two nodes are called 'a'"):
        cn.Network(outputs=cn.plus(cn.tanh(x, name="a"), cn.tanh(x, name="a")))
    with pytest.raises(NetworkError, match="never connected"):
        cn.Network(outputs=cn.delay(None, dim=3))
    d = cn.delay(None, dim=3)
    d.connect(cn.tanh(cn.parameter("R", (3, 3)) @ d))
    with pytest.raises(NetworkError, match="recurrence over parameters alone"):
        cn.Network(outputs=[d.operands[0] + x])
    left, right = cn.delay(None, 1, dim=3), cn.delay(None, -1, dim=3)
    h = cn.tanh(x + left + right)
    left.connect(h), right.connect(h)
    with pytest.raises(NetworkError, match="forward and backward"):
        cn.Network(outputs=h)
    state = cn.input("state", 3)
    with pytest.raises(NetworkError, match=r"'state' is an initial state, but 'y' uses it too\n.*test_network\.py"):
        cn.Network(outputs=[cn.delay(x, initial=state), cn.tanh(state, name="y")])


def test_parameters() -> None:
    net, _ = one_hidden_layer()
    values = {name: RANDOM.normal(size=value.shape) for name, value in net.parameters().items()}
    net.set_parameters(values)
    for name, value in net.parameters().items():
        np.testing.assert_array_equal(value, values[name])
    with pytest.raises(ShapeError, match=r"'b': expected shape \(4, 1\), got \(3, 4\)"):
        net.set_parameters({"W": values["W"], "b": values["W"].T})
    with pytest.raises(NetworkError, match=r"there is no node 'v' in the network; did you mean 'V'\?"):
        net.set_parameters({"v": 0})
    with pytest.raises(NetworkError, match="'J' is no parameter"):
        net.freeze("J")


def test_what_is_printed() -> None:
    net, inputs = one_hidden_layer()
    assert "hidden  : sigmoid" in " ".join(str(net).split()) or ": sigmoid" in str(net)
    assert str(net.order("posterior")).splitlines()[-1].startswith("{softmax1 : softmax} <- times2")
    assert net.order(gradient=True)[0] == "J"
    assert "times1" in str(net.graph(inputs))
    loop = recurrence()
    assert ("d", "times2", "plus1", "h") in loop.order("h")
    assert "loop over 4 nodes" in str(loop.order("h"))


def test_a_profile_says_where_the_time_goes() -> None:
    net, inputs = one_hidden_layer()
    report = net.profile(inputs)
    assert {"Propagate", "Backprop"} <= {row.keys[0] for row in report.rows(("kind",))}
    assert "times1" in {row.keys[0] for row in report.rows(("node",))}
    lines = str(report).splitlines()
    assert lines[0].split() == ["kind", "type", "calls", "ms", "%", "us/call", "MB", "GB/s"]
    assert ["Propagate", "Sigmoid", "1"] in [line.split()[:3] for line in lines]
    assert lines[-1].startswith("all ")


def test_networks_that_are_alike_share_compiled_programs(tmp_path) -> None:
    cache = ComputationCache(folder=tmp_path)
    inputs = {"x": batch(3), "y": batch(2)}
    first, second = recurrence(), recurrence()
    first.cache = second.cache = cache
    one, other = first.gradients(inputs), second.gradients(inputs)
    assert len(cache) == 1
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
    third = recurrence()
    third.cache = ComputationCache(folder=tmp_path)  # from the folder
    np.testing.assert_array_equal(third.gradients(inputs)["R"], one["R"])
    third.freeze("R")
    assert set(third.gradients(inputs)) == {"W", "V"}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda x: cn.sigmoid("x"), "sigmoid: expected a node, a number or an array as operand, got 'x'"),
        (lambda x: x + "a", "expected a node"),
        (lambda x: cn.delay(3), "delay: expected a node, got 3"),
        (lambda x: cn.Network("a"), "expected a node as criterion, got 'a'"),
        (lambda x: cn.Network(outputs={"a": 1}), "expected nodes as outputs, got 1"),
        (lambda x: cn.Network(outputs=x).evaluate(x, [1]), "expected the inputs by name"),
        (lambda x: cn.Network(outputs=x).evaluate(x, {"x": np.ones((3, 0))}), "input 'x': there are no samples"),
        (lambda x: cn.Network(outputs=x).evaluate(x, {"x": cn.sequences([np.ones((3, 0))])}), "there are no frames"),
        (lambda x: cn.constant(["a"]), "constant: expected a matrix of numbers"),
    ],
)
def test_arguments_that_cannot_be_meant(make, says) -> None:
    with pytest.raises(NetworkError, match=says):
        make(cn.input("x", 3))


def test_numbers_and_arrays_as_operands() -> None:
    x = cn.input("x", 2)
    net = cn.Network(
        outputs=[cn.plus(x, 1, name="a"), cn.times([[1.0, 2.0]], x, name="b"), cn.row_stack(x, [5.0], name="c")]
    )
    a, b, c = net.evaluate(["a", "b", "c"], {"x": np.ones((2, 3))})
    assert (a == 2).all()
    assert (b == 3).all()
    assert (c[2] == 5).all()


def test_networks_of_parameters_alone() -> None:
    W = cn.parameter("W", (2, 2), np.eye(2))
    net = cn.Network(cn.l1_norm(W), {"J2": cn.l2_norm(W @ W)})
    assert net.evaluate("J2") == pytest.approx(2**0.5)
    np.testing.assert_array_equal(net.gradients({})["W"], np.eye(2))


def test_programs_of_given_values_know_their_shapes() -> None:
    cache = ComputationCache()
    for rows in (2, 3):
        x = cn.input("x", rows)
        h = cn.tanh(x, name="h")
        net = cn.Network(outputs={"h": h, "total": cn.sum_elements(h, name="total")}, cache=cache)
        X = {"x": np.ones((rows, 2))}
        net.evaluate("h", X)
        assert net.evaluate("total", X) == pytest.approx(2 * rows * np.tanh(1))  # h is given
        assert net.computed == ("total",)


@pytest.mark.parametrize(
    "ask",
    [
        lambda net, batch: net.evaluate("h", batch),
        lambda net, batch: net.evaluate(["h"], batch),
        lambda net, batch: net.gradients(batch),
        lambda net, batch: net.criterion(batch, training=True),
        lambda net, batch: cn.AsynchronousEvaluator(net).evaluate("h", batch),
    ],
)
def test_a_matrix_that_meets_a_delay_is_warned_of_once(ask) -> None:
    net, batch = recurrence(), {"x": np.ones((3, 4)), "y": np.ones((2, 4))}
    with pytest.warns(UserWarning, match=r"'x' is a matrix, .* but 'd' \(delay\) .* cn\.sequences\(\[x\]\)") as caught:
        ask(net, batch)
    assert [warning.filename for warning in caught] == [__file__]  # where the user asks
    ask(net, batch)
    net.gradients({name: value[:, :2] for name, value in batch.items()})


def test_samples_that_are_warned_of() -> None:
    x = cn.input("x", 3)
    tdnn = cn.component("TdnnComponent input-dim=3 output-dim=2 time-offsets=-1,0", x, name="tdnn")
    norm = cn.component("NormalizeComponent dim=3", x)
    net = network(outputs={"tdnn": tdnn, "norm": norm})
    X = np.ones((3, 4))
    net.evaluate("norm", {"x": X})
    net.evaluate("tdnn", {"x": X[:, :1]})
    net.evaluate("tdnn", {"x": cn.sequences([X])})
    with pytest.warns(UserWarning, match=r"'tdnn' \(component\) looks at other frames"):
        net.evaluate("tdnn", {"x": X})
    streams = recurrence(initial=cn.input("state", 4))  # a frame of each stream, and its state
    streams.gradients({"x": X, "y": np.ones((2, 4)), "state": np.ones((4, 4))})


@pytest.mark.parametrize("given", [np.float32, torch.tensor, np.ndarray.tolist, np.asfortranarray])
def test_initial_states_as_matrices_of_any_kind(given) -> None:
    net = recurrence(initial=cn.input("state", 4))
    state = RANDOM.normal(size=(4, 3)).round(1)
    inputs = {"x": batch(3), "y": batch(2)}
    expected = net.gradients({**inputs, "state": cn.sequences([state[:, n : n + 1] for n in range(3)])})
    for name, gradient in net.gradients({**inputs, "state": given(state)}).items():
        np.testing.assert_allclose(gradient, expected[name], rtol=1e-6)


@pytest.mark.parametrize(
    ("lag", "state", "says"),
    [
        (1, np.ones((4, 2)), "input 'state': expected a column for each of 3 sequences, got 2"),
        (1, torch.ones(4, 0), "expected a column for each of 3 sequences, got 0"),
        (1, np.ones((3, 3)), "expected 4 rows, got 3"),
        (1, np.ones(3), "expected a matrix of numbers"),
        (1, cn.sequences([np.ones((4, 2))] * 3), "expected 3 sequences of 1, 1, 1 frames .* got .* of 2, 2, 2"),
        (2, np.ones((4, 3)), r"expected sequences \(cn\.sequences\(\[...\]\)\)"),
    ],
)
def test_initial_states_that_do_not_fit(lag, state, says) -> None:
    net = recurrence(lag, initial=cn.input("state", 4))
    with pytest.raises(ShapeError, match=says):
        net.gradients({"x": batch(3), "y": batch(2), "state": state})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.int32, torch.complex64, torch.bool])
def test_types_of_numbers_that_arrays_have_not(dtype) -> None:
    net, inputs = one_hidden_layer()
    expected = net.evaluate("posterior", inputs)
    for call in (net.to, lambda dtype: cn.Network(net.find("J"), dtype=dtype)):
        with pytest.raises(ArgumentError, match=f"torch.float16, float32 or float64, .* got {dtype}"):
            call(dtype)
    np.testing.assert_array_equal(net.evaluate("posterior", inputs), expected)  # nothing was changed


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -float("inf"), "1", None, 1j, np.ones(2)])
def test_weights_of_criteria_are_finite_numbers(weight) -> None:
    net, _ = one_hidden_layer()
    with pytest.raises(ArgumentError, match="the weight of the criterion 'J' must be"):
        cn.Network({net.find("J"): weight})
