"""The meaning of operations: equal for operations with equal effects, even if their numbers differ.

A matrix of one row may have any stride, a product may be one operation or two, and the sum of one row is the row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nnet3.base.native.codes import Code
from nnet3.base.native.operations import ADDRESSES, NUM_MATRICES, STRIDES, Row

Meaning = tuple[Any, ...]


def meanings(operations: Iterable[Row]) -> list[Meaning]:
    """Returns the meanings of operations in order, without idle ones; packing belongs to the product after it."""
    found: list[Meaning] = []
    packed: Row = ()
    for row in operations:
        code, rows, columns = row[:3]
        if code == Code.PACK:
            packed = row
        elif columns and (rows or code == Code.SUM_ROWS):
            is_product = code in (Code.PRODUCT, Code.COMBINE, Code.PANELS)
            found.append(_product(row, packed, found) if is_product else _by_rows(row))
    return found


def _by_rows(row: Row) -> Meaning:
    code, rows, columns, inner, bits = row[:5]
    addresses, strides = row[ADDRESSES], row[STRIDES]
    if rows == 1:
        strides = (0,) * NUM_MATRICES
        if code == Code.SUM_ROWS:
            dest, one, other, addend, *rest = addresses
            code = Code.MULTIPLY if other else Code.ADD if addend else Code.SCALE
            addresses = (dest, one, *((other, addend) if other else (addend, 0)), *rest)
    strides = tuple([stride if address else 0 for address, stride in zip(addresses, strides, strict=True)])
    return code, rows, columns, inner, bits, addresses, strides


def _product(row: Row, packed: Row, before: list[Meaning]) -> Meaning:
    """Drops the last meaning in `before` if its operation clears the matrix to which the product is added."""
    code, rows, columns, inner, bits = row[:5]
    (y, x, weights, addend, *_), (of_y, of_x, step, of_addend, of_x_column, _) = row[ADDRESSES], row[STRIDES]
    of_column, of_inner, of_x_column = (step, 1, 1) if code == Code.PRODUCT else (1, step, of_x_column)
    is_in_panels = code == Code.PANELS and weights  # that no operation has made
    if is_in_panels:
        of_column, of_inner, of_x_column = step, 1, 1
    elif code == Code.PANELS:
        if packed[2:4] != row[2:4]:
            return code, "panels of another size"
        bits, weights, of_column, of_inner, of_x_column = packed[4], packed[ADDRESSES][2], *packed[STRIDES][2:4], 1
    if rows == 1:
        of_y = of_x = of_addend = 0
    of_column, of_inner, of_x_column = of_column * (columns > 1), of_inner * (inner > 1), of_x_column * (inner > 1)
    cleared = Code.FILL, rows, columns, 0, 0, (y, *[0] * (NUM_MATRICES - 1)), (of_y, *[0] * (NUM_MATRICES - 1))
    if addend == y and of_addend == of_y and before[-1:] == [cleared]:
        before.pop()
        addend = 0
    sizes, of_y_and_addend = (rows, columns, inner, bits), (of_y, of_addend if addend else 0)
    kind = Code.PANELS if is_in_panels else Code.PRODUCT
    return kind, *sizes, (y, x, weights, addend), (*of_y_and_addend, of_x, of_x_column, of_column, of_inner)
