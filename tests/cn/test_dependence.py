"""What values, programs and runners depend on: whatever changes, the next number is that of a network made anew."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import torch
from torch.nn.utils import vector_to_parameters

from nnet3 import cn
from nnet3.cn.dependence import same_numbers
from nnet3.cn.runners import Runner
from tests.cn.reference import columns, compare
from tests.effort import draws
from tests.seeds import RANDOM

LINEAR = "NaturalGradientAffineComponent input-dim=3 output-dim=3 param-stddev=1"


def anew(network: cn.Network) -> cn.Network:
    """An equal network that has not computed anything."""
    return network.copy()


def linear(dtype: torch.dtype = torch.float64) -> tuple[cn.Network, dict[str, np.ndarray]]:
    x, y = cn.input("x", 3), cn.input("y", 2)
    h = cn.tanh(cn.parameter("W", (2, 3)) @ x + cn.parameter("b", (2, 1), 0.5), name="h")
    net = cn.Network(cn.square_error(h, y, name="J"), dtype=dtype)
    return net, {"x": RANDOM.normal(size=(3, 4)), "y": RANDOM.normal(size=(2, 4))}


# ---- layouts ----


def test_the_same_numbers_as_sequences() -> None:
    x = cn.input("x", 1)
    total = cn.delay(None, dim=1)
    total.connect(sums := cn.plus(x, total, name="sum"))
    net = cn.Network(outputs={"sum": sums})
    ones = np.ones((1, 4))
    with pytest.warns(UserWarning, match="'x' is a matrix"):
        np.testing.assert_array_equal(net.evaluate("sum", {"x": ones}), [[1, 1, 1, 1]])
    np.testing.assert_array_equal(net.evaluate("sum", {"x": cn.sequences([ones])})[0], [[1, 2, 3, 4]])
    found = net.evaluate("sum", {"x": cn.sequences([ones[:, :2], ones[:, :2]])})
    np.testing.assert_array_equal(columns(found), [[1, 2, 1, 2]])
    np.testing.assert_array_equal(net.evaluate("sum", {"x": ones}), [[1, 1, 1, 1]])


def test_the_same_numbers_as_sequences_of_a_component_with_context() -> None:
    seen = cn.component("TdnnComponent input-dim=1 output-dim=1 time-offsets=-1,0 use-bias=false", cn.input("x", 1))
    net = cn.Network(cn.sum_elements(seen, name="J"), {"seen": seen})
    ones = np.ones((1, 4))
    W = net.parameters()["component1.linear_params"]
    for lengths in ((4,), (2, 2), (1, 3), (3, 1)):
        parts = cn.sequences(np.split(ones, np.cumsum(lengths)[:-1], axis=1))
        expected = W.sum() * 4 - W[0, 0] * len(lengths)
        assert net.criterion({"x": parts}) == pytest.approx(expected, rel=1e-5)


# ---- parameters that are written without being counted ----


def _fused(net: cn.Network, inputs) -> None:
    tensors = list(net.tensors().values())
    optimizer = torch.optim.Adam(tensors, lr=0.1, fused=True)
    net.backward(inputs)
    optimizer.step()


def _vector(net: cn.Network, inputs) -> None:
    tensors = list(net.tensors().values())
    numbers = sum(tensor.numel() for tensor in tensors)
    vector_to_parameters(torch.linspace(-1, 1, numbers, dtype=tensors[0].dtype), tensors)


def _data(net: cn.Network, inputs) -> None:
    net.find("W").memory.data.mul_(2)


def _other_data(net: cn.Network, inputs) -> None:
    tensor = net.find("W").memory
    tensor.data = torch.ones_like(tensor)


def _other_strides(net: cn.Network, inputs) -> None:
    tensor = net.find("W").memory
    tensor.data = torch.arange(tensor.numel(), dtype=tensor.dtype).view(tensor.T.shape).T


def _memory(net: cn.Network, inputs) -> None:
    net.find("W").memory = torch.ones_like(net.find("W").memory)


def _numpy(net: cn.Network, inputs) -> None:
    net.find("W").memory.numpy()[:] = 3


@pytest.mark.parametrize("write", [_fused, _vector, _data, _other_data, _other_strides, _memory, _numpy])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_parameters_that_are_written_without_being_counted(write, dtype) -> None:
    net, inputs = linear(dtype)
    for _ in range(3):
        before = net.criterion(inputs), net.gradients(inputs)
        write(net, inputs)
        expected = anew(net)
        assert net.criterion(inputs) == expected.criterion(inputs)
        for name, gradient in expected.gradients(inputs).items():
            np.testing.assert_array_equal(net.gradients(inputs)[name], gradient)
    assert before[0] == net.criterion(inputs) or write in (_fused, _data)


def test_training_goes_on_after_the_parameters_have_been_moved() -> None:
    net, inputs = linear()
    net.backward(inputs)
    _vector(net, inputs)
    expected = anew(net)
    for each in (net, expected):
        cn.train(each, [inputs], epochs=3)
    np.testing.assert_array_equal(net.parameters()["W"], expected.parameters()["W"])


def test_numbers_that_look_equal() -> None:
    x, W = cn.input("x", 1), cn.parameter("W", (1, 1), 0.0)
    net = cn.Network(outputs={"product": cn.element_times(W, x, name="product")})
    assert not np.signbit(net.evaluate("product", {"x": np.array([[1.0]])}))
    assert np.signbit(net.evaluate("product", {"x": np.array([[-1.0]])}))
    net.set_parameters({"W": [[-0.0]]})
    assert not np.signbit(net.evaluate("product", {"x": np.array([[-1.0]])}))
    nan = {"x": np.array([[np.nan]])}
    net.evaluate("product", nan)
    net.evaluate("product", nan)
    assert net.computed == ()  # a NaN is the same NaN


def test_touch_lets_everything_be_computed_again() -> None:
    net, inputs = linear()
    net.criterion(inputs)
    net.touch()
    net.criterion(inputs)
    assert net.computed == ("times1", "plus1", "h", "J")


# ---- freezing ----


def test_a_component_that_was_frozen_for_a_time_has_gradients() -> None:
    x, y = cn.input("x", 3), cn.input("y", 3)
    below = cn.parameter("W", (3, 3)) @ x
    net = cn.Network(cn.square_error(cn.component(LINEAR, below, name="c"), y), dtype=torch.float64)
    inputs = {"x": RANDOM.normal(size=(3, 4)), "y": RANDOM.normal(size=(3, 4))}
    net.freeze("c")
    assert set(net.gradients(inputs)) == {"W"}
    net.unfreeze("c")
    expected = anew(net).gradients(inputs)
    found = net.gradients(inputs)
    assert set(found) == {"W", "c.linear_params", "c.bias_params"}
    for name, gradient in expected.items():
        assert np.abs(gradient).max() > 0
        np.testing.assert_array_equal(found[name], gradient)
    net.freeze("c")
    assert set(net.gradients(inputs)) == {"W"}


def test_a_network_that_is_optimized_no_more_makes_another_program() -> None:
    net, inputs = linear()
    for optimize in (True, False):
        net.optimize = optimize
        net.gradients(inputs)
    assert len(net._runners) == 2


# ---- memory ----


def sharing() -> tuple[cn.Network, cn.Network, dict[str, np.ndarray]]:
    """Two networks that share W, and each has a parameter of its own."""
    x = cn.input("x", 3)
    h = cn.tanh(cn.parameter("W", (3, 3)) @ x, name="h")
    one = cn.Network(cn.squared_norm(cn.parameter("A", (2, 3)) @ h))
    other = cn.Network(cn.squared_norm(cn.component(LINEAR, cn.parameter("B", (3, 3)) @ h, name="c")))
    return one, other, {"x": RANDOM.normal(size=(3, 4))}


def assert_as_anew(network: cn.Network, inputs) -> None:
    expected = anew(network)
    assert network.dtype == expected.dtype
    assert network.criterion(inputs) == expected.criterion(inputs)
    gradients = network.gradients(inputs)
    for name, gradient in expected.gradients(inputs).items():
        np.testing.assert_array_equal(gradients[name], gradient)
        assert gradients[name].dtype == gradient.dtype


def test_networks_that_share_nodes_follow_their_memory() -> None:
    one, other, inputs = sharing()
    for net in (one, other):
        assert_as_anew(net, inputs)
    other.to(torch.float64)
    for net in (one, other):
        assert_as_anew(net, inputs)
        assert net.dtype == torch.float64
    W = RANDOM.normal(size=(3, 3))
    one.set_parameters({"W": W})
    np.testing.assert_array_equal(other.parameters()["W"], W)  # not rounded
    for net in (one, other):
        assert_as_anew(net, inputs)
    for net in (one, other):
        net.to(torch.float32)
    for net in (one, other):
        assert_as_anew(net, inputs)
        assert net.dtype == torch.float32


def test_a_new_network_rounds_no_shared_parameters() -> None:
    x = cn.input("x", 3)
    W = cn.parameter("W", (3, 3))
    cn.Network(cn.squared_norm(W), dtype=torch.float64)
    W.value = value = RANDOM.normal(size=(3, 3))
    net = cn.Network(cn.squared_norm(cn.parameter("V", (2, 3)) @ cn.tanh(W @ x)))
    assert net.dtype == torch.float64
    np.testing.assert_array_equal(W.value, value)


def test_constants_of_components_are_converted_too() -> None:
    fixed = cn.component("FixedScaleComponent dim=3", cn.input("x", 3))
    net = cn.Network(outputs={"y": fixed})
    X = {"x": RANDOM.normal(size=(3, 4))}
    found = net.evaluate("y", X)
    np.testing.assert_allclose(net.to(torch.float64).evaluate("y", X), found, rtol=1e-6)


def test_gradients_of_components_are_converted_with_them() -> None:
    _, net, inputs = sharing()
    net.backward(inputs)
    net.to(torch.float64)
    assert {tensor.grad.dtype for name, tensor in net.tensors().items()} == {torch.float64}
    assert_as_anew(net, inputs)
    net.backward(inputs)
    net.find("c").operation.component.to(torch.float32)
    assert net.copy().dtype == torch.float64  # the wider one


def test_there_and_back() -> None:
    net, inputs = linear(torch.float32)
    expected = net.evaluate("h", inputs)
    for dtype in (torch.float64, torch.float32):
        assert_as_anew(net.to(dtype), inputs)
    np.testing.assert_array_equal(net.evaluate("h", inputs), expected)


# ---- asynchronous evaluation ----


@pytest.mark.parametrize("devices", [None, ["cpu", "cpu:0"]], ids=["threads", "copies"])
def test_asynchronous_evaluation_sees_every_change(devices) -> None:
    x = cn.input("x", 3)
    n = cn.per_dim_mean_var_norm(x, cn.mean(x, name="m"), cn.inv_std_dev(x, name="s"), name="n")
    halves = [cn.tanh(cn.parameter(f"W{i}", (3, 3)) @ n) for i in range(2)]
    y = cn.component(LINEAR, cn.row_slice(cn.row_stack(*halves), 1, 3), name="c")
    net = cn.Network(outputs={"y": y, "o": cn.tanh(y * n, name="o")})  # `o` is a unit without parameters
    evaluator = cn.AsynchronousEvaluator(net, devices=devices)
    data = {"x": RANDOM.normal(1, 3, size=(3, 9))}
    net.compute_statistics([data])

    def check() -> None:
        names = ["y", "n", "o"]
        for found, expected in zip(evaluator.evaluate(names, data), net.copy().evaluate(names, data), strict=True):
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype

    check()
    for dtype in (torch.float64, torch.float32):
        net.to(dtype)
        check()
    net.set_parameters({"W1": np.ones((3, 3)), "c.bias_params": [1, 2, 3]})
    check()
    net.find("m").value = np.ones((3, 1))
    check()
    net.find("c").operation.component.linear_params.data.mul_(2)
    check()


def test_asynchronous_evaluation_forgets_old_programs(monkeypatch) -> None:
    monkeypatch.setattr("nnet3.cn.runners._MOST_RUNNERS", 4)
    net, _ = linear()
    evaluator = cn.AsynchronousEvaluator(net, 1)
    for samples in range(1, 10):
        evaluator.evaluate("h", {"x": np.ones((3, samples))})
    assert len(evaluator._workers[0].runners) <= 4


# ---- what is computed again ----


def test_an_unchanged_branch_is_not_computed_again() -> None:
    x, u = cn.input("x", 2), cn.input("u", 2)
    a = cn.tanh(cn.parameter("A", (2, 2)) @ x, name="a")
    b = cn.sigmoid(cn.parameter("B", (2, 2)) @ u, name="b")
    net = cn.Network(outputs={"a": a, "o": cn.element_times(a, b, name="o")})
    inputs = {"x": RANDOM.normal(size=(2, 3)), "u": RANDOM.normal(size=(2, 3))}
    net.evaluate("o", inputs)
    inputs["u"] = inputs["u"] + 1
    net.evaluate("o", inputs)
    assert net.computed == ("times2", "b", "o")
    net.evaluate(["a", "times1"], inputs)
    assert net.computed == ()
    net.set_parameters({"A": np.ones((2, 2))})
    net.evaluate(["o"], inputs)
    assert net.computed == ("times1", "a", "o")


class Rule:
    """The chapter's rule, node by node: a value is computed again only if a child has a newer one."""

    def __init__(self) -> None:
        self.clock = itertools.count(1)
        self.times: dict[cn.Node, int] = {}

    def give(self, node: cn.Node) -> None:
        self.times[node] = next(self.clock)

    def evaluate(self, root: cn.Node, computed: set[cn.Node], seen: set[cn.Node]) -> None:
        if root in seen:
            return
        seen.add(root)
        for child in root.operands:
            self.evaluate(child, computed, seen)
        if root.operands and self.times.get(root, 0) <= max(self.times[child] for child in root.operands):
            computed.add(root)
            self.give(root)


@pytest.mark.parametrize("seed", range(draws(6)))
def test_what_is_computed_is_what_the_chapter_says(seed) -> None:
    rng = random.Random(seed)
    inputs = [cn.input(f"x{i}", 2) for i in range(3)]
    parameters = [cn.parameter(f"P{i}", (2, 2), RANDOM.normal(size=(2, 2))) for i in range(3)]
    nodes = [*inputs, *parameters]
    for _ in range(12):
        kind, one = rng.randrange(3), rng.choice(nodes)
        samples = [node for node in nodes if node.shape.has_samples]
        if kind == 0:
            nodes.append(cn.tanh(one))
        elif kind == 1:
            nodes.append(cn.times(rng.choice([n for n in nodes if not n.shape.has_samples]), one))
        else:
            nodes.append(cn.plus(rng.choice(samples), rng.choice(samples)))
    net = cn.Network(outputs={f"y{i}": node for i, node in enumerate(nodes)}, dtype=torch.float64)
    given = {node.name: RANDOM.normal(size=(2, 3)) for node in inputs}
    rule = Rule()
    for node in (*inputs, *parameters):
        rule.give(node)
    for _ in range(25):
        if rng.random() < 0.5:
            node = rng.choice([*inputs, *parameters])
            value = RANDOM.normal(size=(2, 3)) if node in inputs else RANDOM.normal(size=(2, 2))
            given.update({node.name: value}) if node in inputs else net.set_parameters({node.name: value})
            rule.give(node)
        roots = rng.sample(nodes, rng.randint(1, 3))
        expected: set[cn.Node] = set()
        seen: set[cn.Node] = set()
        for root in roots:
            rule.evaluate(root, expected, seen)
        values = net.evaluate(roots, given)
        assert set(net.computed) == {net.names[node] for node in expected}
        for value, wanted in zip(values, anew(net).evaluate([net.names[r] for r in roots], given), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-12)


def test_a_loop_is_computed_as_a_whole_and_its_inside_from_what_is_known() -> None:
    x = cn.input("x", 2)
    d = cn.delay(None, dim=2, name="d")
    h = d.connect(cn.tanh(cn.plus(x, cn.parameter("R", (2, 2)) @ d, name="p"), name="h"))
    net = cn.Network(outputs={"y": cn.sigmoid(h, name="y")}, dtype=torch.float64)
    inputs = {"x": cn.sequences([RANDOM.normal(size=(2, 4))])}
    net.evaluate("y", inputs)
    assert set(net.computed) == {"d", "times1", "p", "h", "y"}
    net.evaluate(["y", "h"], inputs)
    assert net.computed == ()
    net.evaluate("p", inputs)
    assert set(net.computed) == {"d", "times1", "p"}  # `h` is known
    compare(net, inputs)


def test_a_program_is_made_once_while_nothing_changes(monkeypatch) -> None:
    made = []
    init = Runner.__init__
    monkeypatch.setattr(Runner, "__init__", lambda self, *args: (made.append(self), init(self, *args))[1])
    x = cn.input("x", 3)
    h = cn.component("BatchNormComponent dim=3", cn.component(LINEAR, x, name="c"), name="norm")
    net = cn.Network(cn.squared_norm(cn.component("DropoutComponent dim=3 dropout-proportion=0.5", h)), {"h": h})
    inputs = {"x": RANDOM.normal(size=(3, 4))}
    for _ in range(3):
        net.backward(inputs)
    for _ in range(3):
        inputs["x"] = inputs["x"] + 1
        net.evaluate("h", inputs)
    assert len(made) == 2


def test_final_states_are_of_the_inputs_that_are_given() -> None:
    cell = cn.macros.lstm(cn.input("x", 2), 3, carry=True)
    net = cn.Network(cn.squared_norm(cell.h), dtype=torch.float64)
    batch = {"x": cn.sequences([RANDOM.normal(size=(2, 4))]), "lstm.h0": np.zeros((3, 1)), "lstm.c0": np.zeros((3, 1))}
    net.backward(batch)
    first = net.final_states(dict(batch))
    np.testing.assert_allclose(first["lstm.h0"][0], anew(net).evaluate(net.names[cell.h], batch)[0])
    batch["x"] = cn.sequences([RANDOM.normal(size=(2, 4))])  # another value in the same dictionary
    found = net.final_states(batch)
    np.testing.assert_allclose(found["lstm.h0"][0], anew(net).evaluate(net.names[cell.h], batch)[0])
    assert not np.array_equal(first["lstm.h0"][0], found["lstm.h0"][0])


def test_numbers_are_the_same_bit_by_bit() -> None:
    x = torch.tensor([[1.0, float("nan"), 0.0], [2.0, -1.0, 3.0]])
    turned, part = x.t().contiguous().t(), torch.cat([x, x], 1)[:, :3]
    for other in (x.clone(), turned, part):
        assert same_numbers(x, other)
        assert same_numbers(other, x)
    for row, column in np.ndindex(2, 3):
        for like in (x.clone(), turned.t().clone().t()):
            like[row, column] = -0.0 if like[row, column] == 0 else 7
            assert not same_numbers(x, like)
    assert same_numbers(x[:, :0], x[:, :0].clone())
    assert not same_numbers(x, x.double())
    assert not same_numbers(x, x[:1])
    assert same_numbers(x.to_sparse(), x.to_sparse())
    assert not same_numbers(x.to_sparse(), (2 * x).to_sparse())
