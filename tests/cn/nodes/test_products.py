"""Products: times, Khatri-Rao, scale, diag_times, and what rows do: slice and stack."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import ShapeError
from tests.cn.check_node import check_node, random

x = cn.input("x", 4)
y = cn.input("y", 3)


@pytest.mark.parametrize("right", [x, cn.parameter("R", (4, 5))])
def test_times_is_the_matrix_product(right) -> None:
    node = cn.parameter("W", (3, 4)) @ right
    check_node(node, [random(3, 4), random(4, 5)], lambda a, b: torch.einsum("ij,jk->ik", a, b))


def test_a_column_begins_as_weights_where_it_is_multiplied() -> None:
    W, b, one = cn.parameter("W", (5, 1)), cn.parameter("b", (5, 1)), cn.parameter("one", (1, 1))
    z = cn.input("z", 1)
    cn.plus(W @ (one @ z), b)
    for weights in (W, one):
        assert weights.value.all()
        assert np.abs(weights.value).max() <= (6 / (weights.shape.rows + 1)) ** 0.5
    assert not b.value.any()
    _ = cn.parameter("W", (5, 1)) @ z
    again = cn.parameter("W", (5, 1))
    seeded = cn.parameter("V", (5, 1), seed=3), cn.parameter("U", (5, 1), seed=3)
    for column in (again, *seeded):
        assert not column.value.any()
        cn.times(column, z)
    np.testing.assert_array_equal(again.value, W.value)
    np.testing.assert_array_equal(seeded[0].value, seeded[1].value)
    assert (seeded[0].value != W.value).all()


def test_values_that_were_given_stay_where_they_are_multiplied() -> None:
    z = cn.input("z", 1)
    zero, cleared, written = cn.parameter("W", (3, 1), 0), cn.parameter("C", (3, 1)), cn.parameter("V", (3, 1))
    cleared.value = np.zeros(3)
    written.memory.data.fill_(2.0)
    matrix = cn.parameter("M", (3, 4))
    before = matrix.value
    for weights, value in ((zero, 0), (cleared, 0), (written, 2)):
        cn.times(weights, z)
        assert (weights.value == value).all()
    written.memory.zero_()  # by then the initial values have been given
    cn.times(written, z)
    assert not written.value.any()
    cn.times(matrix, x)
    np.testing.assert_array_equal(matrix.value, before)
    with pytest.raises(ShapeError):
        cn.times(untouched := cn.parameter("U", (3, 1)), x)
    assert not untouched.value.any()


def test_khatri_rao_product() -> None:
    def formula(a, b):
        return torch.stack([torch.kron(a[:, j], b[:, j]) for j in range(a.shape[1])], 1)

    check_node(cn.khatri_rao_product(x, y), [random(4, 5), random(3, 5)], formula)


@pytest.mark.parametrize("right", [x, cn.parameter("R", (4, 5))])
def test_scale_multiplies_by_a_number(right) -> None:
    check_node(cn.scale(cn.parameter("l", (1, 1)), right), [random(1, 1), random(4, 5)], lambda a, b: a[0, 0] * b)


def test_diag_times_multiplies_by_a_diagonal_matrix() -> None:
    node = cn.diag_times(cn.parameter("d", (4, 1)), x)
    check_node(node, [random(4, 1), random(4, 5)], lambda d, b: torch.diag(d[:, 0]) @ b)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: x @ x, "without samples"),
        (lambda: cn.parameter("W", (3, 5)) @ x, "as many columns in the first"),
        (lambda: cn.diag_times(cn.parameter("d", (3, 1)), x), "as many rows"),
        (lambda: cn.scale(cn.parameter("d", (3, 1)), x), "1 x 1"),
        (lambda: cn.khatri_rao_product(x, cn.parameter("d", (3, 1))), "as many columns"),
        (lambda: cn.row_slice(x, 3, 2), "more rows"),
        (lambda: cn.row_stack(cn.parameter("a", (1, 2)), cn.parameter("b", (1, 3))), "as many columns"),
        (cn.row_stack, "row_stack needs"),
    ],
)
def test_shapes_that_do_not_fit(make, says) -> None:
    with pytest.raises(ShapeError, match=says):
        make()


def test_operators_make_nodes() -> None:
    W = cn.parameter("W", (3, 4))
    assert (W @ x).type == "times"
    assert (x + 1).type == "plus"
    assert (1 - x).operands[1] is x
    assert (x * x).type == "element_times"
    assert (2 * x).type == "scale"
    assert (x * 2).formula == "scale(2, x)"
    assert (-x).type == "negate"
    assert (random(3, 4).numpy() @ x).shape == cn.Shape(3)
