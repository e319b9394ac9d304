"""What a network keeps: parameters, initial states, weights of criteria."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import ArgumentError, NetworkError, ShapeError
from tests.cn.small_networks import batch, one_hidden_layer, recurrence
from tests.seeds import RANDOM


def test_parameters_are_what_was_set() -> None:
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


def test_a_criterion_that_is_given_twice_counts_twice() -> None:
    J = cn.squared_norm(cn.parameter("W", (2, 2)))
    assert cn.Network([J, J]).criterion({}) == pytest.approx(2 * cn.Network(J).criterion({}))
    assert cn.Network([J, J]).criteria == {J: 2.0}


def test_what_is_printed() -> None:
    net, inputs = one_hidden_layer()
    assert "hidden  : sigmoid" in " ".join(str(net).split()) or ": sigmoid" in str(net)
    assert str(net.order("posterior")).splitlines()[-1].startswith("{softmax1 : softmax} <- times2")
    assert net.order(gradient=True)[0] == "J"
    assert "plus1" in str(net.graph(inputs))
    loop = recurrence()
    assert ("d", "times2", "plus1", "h") in loop.order("h")
    assert "loop over 4 nodes" in str(loop.order("h"))


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


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -float("inf"), "1", None, 1j, np.ones(2)])
def test_weights_of_criteria_are_finite_numbers(weight) -> None:
    net, _ = one_hidden_layer()
    with pytest.raises(ArgumentError, match="the weight of the criterion 'J' must be"):
        cn.Network({net.find("J"): weight})
