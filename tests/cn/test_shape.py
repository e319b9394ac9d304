"""Shapes as users write them."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3 import cn
from nnet3.cn.shape import as_shape
from nnet3.errors import ShapeError


def test_shapes_are_made_of_numbers_and_tuples() -> None:
    assert as_shape(3, "it") == as_shape((3,), "it") == cn.Shape(3)
    assert as_shape((3, 4), "it") == as_shape([np.int64(3), np.int32(4)], "it") == cn.Shape(3, 4)
    assert (str(cn.Shape(3)), str(cn.Shape(3, 4))) == ("3 x S", "3 x 4")
    assert type(as_shape(np.int64(3), "it").rows) is int


@pytest.mark.parametrize(
    ("shape", "has_samples", "is_scalar"),
    [((1,), True, False), ((1, 1), False, True), ((1, 2), False, False), ((2, 1), False, False), ((2,), True, False)],
)
def test_shapes_know_samples_and_scalars(shape, has_samples, is_scalar) -> None:
    found = cn.Shape(*shape)
    assert found.has_samples == has_samples
    assert found.is_scalar == is_scalar


@pytest.mark.parametrize("shape", [0, -1, (3, 0), (), (1, 2, 3), 3.0, "3", None, True, (True, 2), (2, 2.0)])
def test_what_is_no_shape(shape) -> None:
    with pytest.raises(ShapeError, match=r"it: expected a number of rows, or \(rows, columns\), all at least 1; got"):
        as_shape(shape, "it")


def test_the_largest_shape() -> None:
    assert as_shape((2**18, 2**18), "it").cols == 2**18
    with pytest.raises(ShapeError, match="it: 262144 x 262145 elements are too many"):
        as_shape((2**18, 2**18 + 1), "it")
