"""Operations have equal meanings if they do the same, and other ones if a number in them is another that matters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3.base.native import operations as native
from nnet3.base.native.codes import Code
from nnet3.base.native.meaning import meanings
from nnet3.base.native.operations import ADDRESSES, STRIDES, Operations


def matrix(rows: int, columns: int) -> Tensor:
    return torch.zeros(2 * rows, 2 * columns)[:rows, :columns]


def some(operations: Operations | None) -> Operations:
    assert operations is not None
    return operations


Y, X, W, ROW = matrix(8, 6), matrix(8, 4), matrix(6, 4), matrix(1, 6)


def panels(y: Tensor, x: Tensor, weights: Tensor, addend: Tensor | None, factor: float = 1.0) -> Operations:
    """A product by packed weights, whatever its size."""
    (rows, columns), inner = y.shape, x.shape[1]
    of_inner = weights.stride(1)
    pack = native._operation(Code.PACK, 0, columns, (None, None, weights[:, :1]), inner, factor, {3: of_inner})
    last = native._operation(Code.PANELS, rows, columns, (y, x, None, y if addend is None else addend), inner)
    return some(native.in_a_row(pack, native.zero(y) if addend is None else (), last))


@pytest.mark.parametrize("rows", [8, 1])
@pytest.mark.parametrize("addend", [None, X.new_zeros(6), Y], ids=["alone", "a row", "a matrix"])
@pytest.mark.parametrize("turned", [False, True])
def test_products(rows: int, addend: Tensor | None, turned: bool) -> None:
    """They are made in one operation or another, by how weights lie, and how large they are."""
    addend = addend[:rows] if addend is Y else addend
    weights = W.t().contiguous().t() if turned else W
    one = some(native.product(Y[:rows], X[:rows], weights, addend, 0.5))
    assert len(one) == 1
    assert meanings(one) == meanings(panels(Y[:rows], X[:rows], weights, addend, 0.5))
    assert meanings(one) != meanings(some(native.product(Y[:rows], X[:rows], weights, addend)))
    assert meanings(one) != meanings(panels(Y[:rows], X[:rows], weights[:, 1:], addend, 0.5))


def test_products_by_given_panels() -> None:
    cut = torch.zeros(2, 9, 16)[:, :4]
    one = meanings(some(native.panel_product(Y, X, cut, Y)))
    assert one == meanings(some(native.panel_product(Y, X, cut, Y)))
    for other in (cut[:, 1:], cut.contiguous(), torch.zeros(2, 9, 16)[:, :4]):
        assert one != meanings(some(native.panel_product(Y, X, other, Y)))
    as_product = native._operation(Code.PRODUCT, 8, 6, (Y, X, cut[:, 0], Y), 4)
    assert one != meanings(some(as_product))


@pytest.mark.parametrize("other", [None, matrix(1, 6)], ids=["alone", "with another"])
@pytest.mark.parametrize("adds", [False, True])
def test_the_sum_of_one_row_is_the_row(other: Tensor | None, adds: bool) -> None:
    one, addend = matrix(1, 6), ROW if adds else None
    if other is not None:
        by_element = native.multiply(ROW, one, other, addend, 2.0)
    else:
        by_element = native.add(ROW, one, 2.0) if adds else native.scaled_copy(ROW, one, 2.0)
    assert meanings(some(native.sum_rows(ROW, one, other, addend, 2.0))) == meanings(some(by_element))


def test_the_stride_of_one_row_is_of_no_meaning() -> None:
    whole = torch.zeros(4, 6)
    one, other = some(native.tanh(whole[:1], whole[:1])), some(native.tanh(whole[::2][:1], whole[::3][:1]))
    assert one != other
    assert meanings(one) == meanings(other)


def test_what_does_nothing() -> None:
    assert meanings([*some(native.copy(Y[:0], X.new_zeros(0, 6))), *some(native.zero(Y[:, :0]))]) == []
    assert len(meanings(some(native.sum_rows(ROW, Y[:0])))) == 1  # zeros


@pytest.mark.parametrize(
    "operations",
    [
        native.add(Y, matrix(8, 6), 0.5),
        native.gru(Y, matrix(8, 6), torch.zeros(6), matrix(8, 6), matrix(8, 6), matrix(8, 6)),
        native.lstm(matrix(8, 8), matrix(8, 20), torch.zeros(3, 4), False),
        native.product(Y, X, W, None),
        native.product(Y, X, W.t().contiguous().t(), Y),
        native.sum_rows(ROW, Y, matrix(8, 6), ROW),
        panels(Y, X, W, Y, 0.5),
    ],
)
def test_each_number_counts(operations: Operations) -> None:
    """Of those that are not zero: an address that is none has no stride, and some operations no inner size."""
    expected = meanings(operations)
    for number, row in enumerate(operations):
        places = np.flatnonzero(row).tolist()
        counting = [place for place in places if place < STRIDES.start or row[ADDRESSES.start + place - STRIDES.start]]
        assert len(counting) >= 3
        for place in counting:
            changed = [(*row[:place], row[place] + 4, *row[place + 1 :]) if row is own else own for own in operations]
            assert meanings(changed) != expected, (number, place)
