"""What operations are made with: results put into or added to their place, shapes that must agree."""

from __future__ import annotations

import pytest
import torch

from nnet3 import cn
from nnet3.cn.operation import equal_columns, equal_shapes, put, put_product, put_scaled
from nnet3.cn.shape import Shape
from nnet3.errors import ShapeError

A, B = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0], [7.0]])


def _dest() -> torch.Tensor:
    return torch.full((2, 2), 10.0)


@pytest.mark.parametrize("accumulate", [False, True])
def test_results_are_put_or_added(accumulate: bool) -> None:
    before = _dest() if accumulate else torch.zeros(2, 2)
    for function, arguments, wanted in (
        (put, (A,), A),
        (put_product, (A, B), A * B),
        (put_scaled, (A, 0.5), 0.5 * A),
        (put_scaled, (A, torch.tensor(3.0)), 3 * A),
        (put_scaled, (A, B), A * B),
    ):
        dest = _dest()
        function(dest, *arguments, accumulate)
        assert torch.equal(dest, before + wanted), function.__name__


def test_what_was_not_a_number_does_not_stay() -> None:
    dest = torch.full((2, 2), torch.nan)
    put_scaled(dest, A, 2.0, False)
    assert torch.equal(dest, 2 * A)


def test_columns_and_shapes_that_must_agree() -> None:
    x, y, samples = Shape(3, 2), Shape(4, 2), Shape(3, None)
    assert equal_columns("plus", x, y) == 2
    assert equal_columns("plus", samples, Shape(9, None)) is None
    assert equal_shapes("plus", x, Shape(3, 2)) == x
    with pytest.raises(ShapeError, match="plus needs operands with as many columns as each other"):
        equal_columns("plus", x, samples)
    with pytest.raises(ShapeError, match="plus needs operands of equal shape"):
        equal_shapes("plus", x, y)


def test_messages_of_shapes_name_the_operands() -> None:
    with pytest.raises(ShapeError, match="'u' is 3 x S, 'v' is 4 x S"):
        cn.square_error(cn.input("u", 3), cn.input("v", 4))
