"""Copying a computation."""

from __future__ import annotations

from nnet3.engine.ir.commands import SegmentMarker
from nnet3.engine.ir.program_tables import MatrixInfo
from tests.ir.programs import training_step


def test_a_copy_can_be_changed() -> None:
    original = training_step()
    before = str(original)
    copy = original.copy()
    assert str(copy) == before
    copy.commands[0] = SegmentMarker()
    matrix = copy.new_matrix(2, 2, MatrixInfo("new", False, copy.matrix_info[1].indexes[:2]))
    copy.new_submatrix(matrix, 1)
    copy.index_tables.clear()
    copy.kernels.clear()
    assert str(original) == before
    assert original.new_matrix(3, 3) == 11
