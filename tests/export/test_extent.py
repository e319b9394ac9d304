from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.engine.families.continued import NotAffineError
from nnet3.engine.ir import commands
from nnet3.engine.ir.computation import NnetComputation
from nnet3.errors import ExportError
from nnet3.export.blocks import Rectangle
from nnet3.export.extent import Extent, base_and_slope, extent, larger, smaller
from nnet3.export.graph import GraphBuilder
from nnet3.export.program import Block, FixedProgram
from nnet3.export.translate import translate

numbers = st.builds(extent, st.integers(-9, 9), st.integers(-2, 3))


def _at(number: Extent, k: int) -> int:
    base, slope = base_and_slope(number)
    return base + k * slope


@given(numbers, numbers, st.integers(0, 5))
def test_arithmetic_is_that_of_the_numbers_for_each_length(one: Extent, other: Extent, k: int) -> None:
    assert _at(one + other, k) == _at(one, k) + _at(other, k)
    assert _at(one - other, k) == _at(one, k) - _at(other, k)
    assert _at(3 * one, k) == 3 * _at(one, k)
    assert (one == other) == all(_at(one, k) == _at(other, k) for k in range(2))


@given(numbers, numbers)
def test_an_order_holds_for_all_lengths_or_is_refused(one: Extent, other: Extent) -> None:
    orders = {_at(one, k) <= _at(other, k) for k in range(40)}
    if len(orders) == 1 and one != other:
        assert (one <= other) in orders
        assert (other >= one) in orders
        assert (other < one) == (one > other) == (not one <= other)
    elif one != other:
        with pytest.raises(NotAffineError):
            assert one <= other


@given(numbers, numbers)
def test_the_larger_and_the_smaller_of_two_numbers(one: Extent, other: Extent) -> None:
    signs = {np.sign(_at(one, k) - _at(other, k)) for k in range(40)}
    if {1, -1} <= signs:
        with pytest.raises(NotAffineError):
            larger(one, other)
    else:
        for k in range(3):
            assert _at(larger(one, other), k) == max(_at(one, k), _at(other, k))
            assert _at(smaller(one, other), k) == min(_at(one, k), _at(other, k))


def test_what_depends_on_the_length_has_no_order() -> None:
    class Growing(FixedProgram):
        """The first block has 5 rows, the second as many as there are periods."""

        def block(self, submatrix: int) -> Block:
            return Block(1, Rectangle(0, 5 if submatrix == 1 else extent(0, 1), 0, 3))

    computation = NnetComputation()
    matrix = computation.new_matrix(5, 3)
    part = computation.new_submatrix(matrix, 0, 4)
    computation.commands = [commands.SetConst(part, 1.0), commands.SetConst(matrix, 2.0)]
    with pytest.raises(ExportError, match="the order of rows depends on the length of the utterance"):
        translate(GraphBuilder(), Growing(computation), lambda about, inputs: inputs[0], {})
