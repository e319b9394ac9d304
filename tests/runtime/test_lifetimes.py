"""When each matrix needs its memory."""

from __future__ import annotations

import pytest

from nnet3.engine.ir.commands import (
    AllocMatrix,
    Command,
    CompressMatrix,
    DeallocMatrix,
    DecompressMatrix,
    SegmentMarker,
    SetConst,
)
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime.packing import Span, matrix_spans


def program(num_matrices: int, *commands: Command) -> NnetComputation:
    """Matrices m1, m2... whose sub-matrices have the same numbers."""
    computation = NnetComputation(commands=list(commands))
    for _ in range(num_matrices):
        computation.new_matrix(2, 2)
    return computation


FILL = SetConst(1, 0.0)


def alloc(matrix: int) -> AllocMatrix:
    return AllocMatrix(matrix, zeroed=True)


@pytest.mark.parametrize(
    ("commands", "spans"),
    [
        pytest.param([alloc(1), FILL, DeallocMatrix(1)], {1: [(0, 2)]}, id="from alloc to dealloc"),
        pytest.param(
            [FILL, alloc(1), SegmentMarker(), FILL],
            {1: [(1, 3)]},
            id="to the end, across segments",
        ),
        pytest.param([FILL, DeallocMatrix(1)], {}, id="never allocated"),
        pytest.param([alloc(1), DeallocMatrix(1), FILL, alloc(1)], {1: [(0, 1), (3, 3)]}, id="allocated twice"),
        pytest.param(
            [alloc(1), CompressMatrix(1), FILL, DecompressMatrix(1), DeallocMatrix(1)],
            {1: [(0, 1), (3, 4)], -1: [(1, 3)]},
            id="compressed in between",
        ),
    ],
)
def test_spans_of_one_matrix(commands: list[Command], spans: dict[int, list[Span]]) -> None:
    assert matrix_spans(program(1, *commands)) == spans


def test_matrices_have_spans_of_their_own() -> None:
    computation = program(2, alloc(1), alloc(2), CompressMatrix(2), DeallocMatrix(1), DecompressMatrix(2))
    assert matrix_spans(computation) == {1: [(0, 3)], 2: [(1, 2), (4, 4)], -2: [(2, 4)]}
