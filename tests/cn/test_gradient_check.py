"""The gradient check: which elements it moves, how errors are measured, what it prints."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3 import cn
from nnet3.cn.gradient_check import CheckedElement, GradientCheck
from tests.seeds import RANDOM


def network() -> tuple[cn.Network, dict[str, np.ndarray]]:
    x, y = cn.input("x", 3), cn.input("y", 2)
    h = cn.tanh(cn.parameter("W", (4, 3)) @ x + cn.parameter("b", (4, 1)))
    net = cn.Network(cn.square_error(cn.parameter("V", (2, 4)) @ h, y, name="J"))
    return net, {"x": RANDOM.normal(size=(3, 5)), "y": RANDOM.normal(size=(2, 5))}


def test_the_worst_element_of_each_parameter(capsys) -> None:
    net, batch = network()
    before = net.parameters()
    check = cn.check_gradients(net, batch)
    assert sorted(row.parameter for row in check) == ["V", "W", "b"]
    assert 0 < check.worst < 1e-6
    assert check.worst == check[0].relative_error
    gradients = net.gradients(batch)
    for row in check:
        assert row.gradient == pytest.approx(gradients[row.parameter][row.row, row.col], rel=1e-4)
        assert row.estimate == pytest.approx(row.gradient, rel=1e-5)
        largest = max(abs(row.gradient), abs(row.estimate))
        assert row.relative_error == pytest.approx(abs(row.gradient - row.estimate) / largest, rel=1e-6)
    for name, value in net.parameters().items():
        np.testing.assert_array_equal(value, before[name])  # a copy was moved
    assert capsys.readouterr().out == f"{check}\n"


def test_the_table_shows_each_element() -> None:
    check = GradientCheck(
        [CheckedElement("a.long.name", 12, 3, 1.5, -2.25e-7, 0.5), CheckedElement("b", 0, 0, 1 / 3, 0.25, 1e-9)]
    )
    assert str(check).splitlines() == [
        "parameter    element      gradient       estimate       relative error",
        "a.long.name  (12, 3)      1.5            -2.25e-07      5.00e-01",
        "b            (0, 0)       0.333333       0.25           1.00e-09",
    ]
    assert GradientCheck().worst == 0
    assert str(GradientCheck()) == "parameter  element      gradient       estimate       relative error"


def wrong(factor: float, row: int, col: int):
    """The gradient of times with one wrong element of the matrix's."""
    right = cn.nodes.products.Times.compute_partial_gradient

    def gradient(self, child, inputs, output, gradient, memo, dx, accumulate) -> None:
        right(self, child, inputs, output, gradient, memo, dx, accumulate)
        if child == 0 and tuple(dx.shape) == (3, 4):
            dx[col, row] *= factor

    return gradient


@pytest.mark.parametrize(("row", "col"), [(0, 0), (2, 1), (3, 2)])
def test_a_wrong_element_is_named(monkeypatch, capsys, row, col) -> None:
    net, batch = network()
    net.optimize = False  # so that the product is a kernel of its own
    monkeypatch.setattr("nnet3.cn.nodes.products.Times.compute_partial_gradient", wrong(1.25, row, col))
    worst = cn.check_gradients(net, batch)[0]
    assert (worst.parameter, worst.row, worst.col) == ("W", row, col)
    assert worst.relative_error == pytest.approx(0.2, rel=1e-3)  # of the larger of the two
    assert worst.gradient == pytest.approx(1.25 * worst.estimate, rel=1e-4)


def test_a_sample_of_elements(monkeypatch, capsys) -> None:
    """At most so many, chosen by a seed: all, if there are no more; a wrong one is found in some samples."""
    net, batch = network()
    net.optimize = False  # so that the product is a kernel of its own
    monkeypatch.setattr("nnet3.cn.nodes.products.Times.compute_partial_gradient", wrong(2.0, 1, 1))
    found = [cn.check_gradients(net, batch, max_elements=4, seed=seed).worst > 0.1 for seed in range(12)]
    assert any(found)
    assert not all(found)
    assert found == [cn.check_gradients(net, batch, max_elements=4, seed=seed).worst > 0.1 for seed in range(12)]
    assert cn.check_gradients(net, batch, max_elements=12).worst > 0.1


def test_rounding_in_zeros_does_not_count(capsys) -> None:
    """Elements far smaller than the greatest of their parameter are compared with that."""
    x = cn.input("x", 2)
    net = cn.Network(cn.sum_elements(cn.exp(cn.parameter("W", (1, 2), 1.0) @ x)))
    batch = {"x": np.array([[1.0, 2.0], [1e-13, 0.0]])}
    check = cn.check_gradients(net, batch)
    assert check.worst < 1e-6
    nothing = cn.Network(cn.sum_elements(0.0 * (cn.parameter("V", (1, 2)) @ x)))
    assert cn.check_gradients(nothing, batch).worst == 0
