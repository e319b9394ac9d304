"""Asynchronous evaluation equals synchronous evaluation, under every policy."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.cn.asynchronous import POLICIES, Task
from nnet3.cn.order import needed_nodes
from nnet3.cn.units import find_units
from nnet3.errors import NetworkError, NumericalError
from tests.interrupts import interrupted, num_moments
from tests.patience import PATIENCE
from tests.seeds import RANDOM


def branches(number: int = 4) -> tuple[cn.Network, dict[str, np.ndarray]]:
    x = cn.input("x", 8)
    ends = []
    for branch in range(number):
        h = cn.tanh(cn.parameter(f"W{branch}", (8, 8)) @ x)
        ends.append(cn.sigmoid(cn.parameter(f"V{branch}", (8, 8)) @ h, name=f"end{branch}"))
    net = cn.Network(outputs={"out": cn.row_stack(*ends, name="stack")})
    return net, {"x": RANDOM.normal(size=(8, 5))}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_branches_give_what_one_thread_gives(policy, workers) -> None:
    net, inputs = branches()
    evaluator = cn.AsynchronousEvaluator(net, workers, policy)
    np.testing.assert_array_equal(evaluator.evaluate("out", inputs), net.evaluate("out", inputs))
    assert len(evaluator.record) == 5
    assert evaluator.record[-1].nodes == ("stack",)


def test_a_branch_is_one_unit() -> None:
    net, _ = branches(2)
    roots = [net.find("out")]
    units = find_units(net.composites, needed_nodes(net.nodes, roots, ()), roots)
    assert [len(unit.nodes) for unit in units] == [4, 4, 1]
    assert [unit.children for unit in units] == [(), (), (0, 1)]
    assert units[0].cost(5) > units[2].cost(5)


def test_shortest_task_first() -> None:
    x = cn.input("x", 4)
    wide = cn.tanh(cn.parameter("W", (50, 4)) @ x, name="wide")
    narrow = cn.tanh(cn.parameter("V", (1, 4)) @ x, name="narrow")
    net = cn.Network(outputs=[wide, narrow])
    evaluator = cn.AsynchronousEvaluator(net, 1, "shortest task")
    evaluator.evaluate(["wide", "narrow"], {"x": RANDOM.normal(size=(4, 3))})
    assert [line.nodes[-1] for line in evaluator.record] == ["narrow", "wide"]


def test_least_data_movement_goes_on_where_the_values_are() -> None:
    """Worker 0 has computed a value of 5 numbers, worker 1 one of 15: each goes on with its own."""
    x = cn.input("x", 3)
    small, large = cn.row_slice(x, 0, 1, name="small"), cn.tanh(x, name="large")
    net = cn.Network(outputs=[cn.exp(small), cn.exp(large)])
    roots = [*net.outputs.values(), small, large]
    units = [unit for unit in find_units(net.composites, net.nodes, roots) if unit.operands[0] in (small, large)]
    values = {small: torch.zeros(5, 1), large: torch.zeros(5, 3)}
    evaluation = SimpleNamespace(maker={small: 0, large: 1}, values=values)
    ready = [Task(number, unit, 1) for number, unit in enumerate(units)]
    for worker, node in enumerate((small, large)):
        task = POLICIES["least data movement"](ready, evaluation, SimpleNamespace(number=worker))
        assert task.unit.operands == (node,)


def test_parameters_that_change_are_seen() -> None:
    net, inputs = branches()
    evaluator = cn.AsynchronousEvaluator(net)
    evaluator.evaluate("out", inputs)
    net.set_parameters({"V1": np.ones((8, 8))})
    np.testing.assert_array_equal(evaluator.evaluate("out", inputs), net.evaluate("out", inputs))


def test_workers_on_devices_of_their_own() -> None:
    net, inputs = branches()
    evaluator = cn.AsynchronousEvaluator(net, devices=["cpu", "cpu:0"])  # two names, so two copies
    assert len(evaluator._copies) == 1
    np.testing.assert_array_equal(evaluator.evaluate("out", inputs), net.evaluate("out", inputs))
    net.set_parameters({"V1": np.ones((8, 8))})
    np.testing.assert_array_equal(evaluator.evaluate("out", inputs), net.evaluate("out", inputs))


def test_errors_of_workers_are_raised(monkeypatch) -> None:
    net, inputs = branches()

    def fail(self, inputs, output) -> None:
        raise NumericalError("no")

    monkeypatch.setattr("nnet3.cn.nodes.activations.Sigmoid.evaluate", fail)
    monkeypatch.setattr("nnet3.cn.nodes.activations.Sigmoid.is_native", False)
    with pytest.raises(NumericalError, match="no"):
        cn.AsynchronousEvaluator(net, 3).evaluate("out", inputs)


def test_workers_end_when_an_evaluation_is_interrupted() -> None:
    net, inputs = branches()
    evaluator = cn.AsynchronousEvaluator(net, 3)
    expected, threads = evaluator.evaluate("out", inputs), threading.enumerate()
    last = num_moments(lambda: evaluator.evaluate("out", inputs), within="cn/asynchronous.py")
    for moment in [*range(1, last)] * 3:
        interrupted(lambda: evaluator.evaluate("out", inputs), moment, within="cn/asynchronous.py")
        for thread in set(threading.enumerate()) - set(threads):
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"moment {moment} of {last}"
    np.testing.assert_array_equal(evaluator.evaluate("out", inputs), expected)


def towers() -> tuple[cn.Network, dict[str, np.ndarray]]:
    """Two branches with a shared parameter, dropout and components of which one keeps statistics."""
    x, y, shared = cn.input("x", 4), cn.input("y", 4), cn.parameter("W", (4, 4))
    ends = []
    for branch in range(2):
        h = cn.component("BatchNormComponent dim=4", shared @ x, name=f"norm{branch}")
        h = cn.component("NaturalGradientAffineComponent input-dim=4 output-dim=4 param-stddev=1", h, name=f"a{branch}")
        ends.append(cn.dropout(0.3, cn.tanh(shared @ h), name=f"drop{branch}"))
    total = cn.plus(*ends, name="total")
    criteria = {cn.square_error(total, y, name="J"): 1.0, cn.squared_norm(cn.tanh(shared), name="K"): 0.1}
    net, inputs = cn.Network(criteria, dtype=torch.float64), {name: RANDOM.normal(size=(4, 6)) for name in "xy"}
    net.backward(inputs)  # so that there are statistics
    return net, inputs


def test_gradients_in_test_mode_are_those_of_one_thread() -> None:
    net, inputs = towers()
    evaluator = cn.AsynchronousEvaluator(net, 2)
    value, gradients = evaluator.criterion_and_gradients(inputs, wrt=["x", "total"], training=False)
    expected_value, expected = net.criterion_and_gradients(inputs, wrt=["x", "total"], training=False)
    assert value == pytest.approx(expected_value, rel=1e-14)
    assert gradients.keys() == expected.keys()
    for name, gradient in expected.items():
        np.testing.assert_allclose(gradients[name], gradient, rtol=1e-12, atol=1e-13, err_msg=name)
    done = [(line.is_gradient, line.nodes[-1]) for line in evaluator.record]
    assert done.index((True, "J")) < done.index((True, "drop1"))


def test_a_step_of_training_is_the_same_whoever_does_what() -> None:
    """Masks of dropout, sums of parts and statistics depend on no schedule."""
    first, inputs = towers()
    numbers = []
    for workers, policy in ((1, "first come"), (2, "shortest task"), (4, "least data movement")):
        net = first.copy()
        net.seed_random(3)
        evaluator = cn.AsynchronousEvaluator(net, workers, policy)
        optimizer = torch.optim.SGD(net.tensors().values(), lr=0.1)
        for _ in range(3):
            evaluator.backward(inputs)
            optimizer.step()
        numbers.append((net.parameters(), net.evaluate("norm0", inputs)))
    for parameters, value in numbers[1:]:
        np.testing.assert_array_equal(value, numbers[0][1])
        for name, array in parameters.items():
            np.testing.assert_array_equal(array, numbers[0][0][name], err_msg=name)
    assert not np.array_equal(numbers[0][0]["W"], first.find("W").value)


def test_statistics_are_those_of_backward() -> None:
    (net, inputs), copies = towers(), []
    for back in (lambda net: net.backward, lambda net: cn.AsynchronousEvaluator(net).backward):
        copies.append(net.copy())
        back(copies[-1])({name: 2 * array for name, array in inputs.items()})
    found, expected = (each.evaluate("norm1", inputs) for each in copies)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert not np.allclose(found, net.evaluate("norm1", inputs))


def test_gradients_that_are_not_computed_so() -> None:
    net, inputs = branches()
    with pytest.raises(NetworkError, match="the network has no criterion"):
        cn.AsynchronousEvaluator(net).backward(inputs)
    net, inputs = towers()
    with pytest.raises(NetworkError, match="gradients of components are computed by workers on the network's own"):
        cn.AsynchronousEvaluator(net, devices=["cpu", "cpu:0"]).backward(inputs)


def test_policies_that_there_are_not() -> None:
    with pytest.raises(NetworkError, match="did you mean 'first come'"):
        cn.AsynchronousEvaluator(branches()[0], policy="first comes")
    for workers in (0, 2**70):
        with pytest.raises(NetworkError, match="at least one worker and at most 1000, got "):
            cn.AsynchronousEvaluator(branches()[0], workers)
