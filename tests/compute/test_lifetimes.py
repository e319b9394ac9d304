"""When each matrix needs its memory."""

from __future__ import annotations

import pytest

from nnet3.computation.commands import (
    AllocMatrix,
    Command,
    CompressMatrix,
    DeallocMatrix,
    DecompressMatrix,
    Goto,
    Label,
    NoOp,
    SegmentMarker,
    SwapMatrix,
)
from nnet3.computation.computation import NnetComputation
from nnet3.compute.lifetimes import Span, matrix_spans
from nnet3.errors import ExecutionError


def program(num_matrices: int, *commands: Command) -> NnetComputation:
    """Matrices m1, m2... whose sub-matrices have the same numbers."""
    computation = NnetComputation(commands=list(commands))
    for _ in range(num_matrices):
        computation.new_matrix(2, 2)
    return computation


def alloc(matrix: int) -> AllocMatrix:
    return AllocMatrix(matrix, zeroed=True)


@pytest.mark.parametrize(
    ("commands", "spans"),
    [
        pytest.param([alloc(1), NoOp(), DeallocMatrix(1)], {1: [(0, 2)]}, id="from alloc to dealloc"),
        pytest.param([NoOp(), alloc(1), SegmentMarker(), NoOp()], {1: [(1, 3)]}, id="to the end, across segments"),
        pytest.param([NoOp(), NoOp()], {1: [(0, 1)]}, id="never allocated: always there"),
        pytest.param([alloc(1), DeallocMatrix(1), NoOp(), alloc(1)], {1: [(0, 1), (3, 3)]}, id="allocated twice"),
        pytest.param(
            [alloc(1), CompressMatrix(1, "sign"), NoOp(), DecompressMatrix(1), DeallocMatrix(1)],
            {1: [(0, 1), (3, 4)], -1: [(1, 3)]},
            id="compressed in between",
        ),
    ],
)
def test_spans_of_one_matrix(commands: list[Command], spans: dict[int, list[Span]]) -> None:
    assert matrix_spans(program(1, *commands)) == spans


def test_a_swap_hands_the_memory_over() -> None:
    computation = program(2, alloc(1), NoOp(), SwapMatrix(1, 2), NoOp(), DeallocMatrix(2), alloc(2), DeallocMatrix(2))
    assert matrix_spans(computation) == {1: [(0, 2)], 2: [(2, 4), (5, 6)]}


def test_a_swap_of_two_living_matrices_changes_nothing() -> None:
    computation = program(2, alloc(1), alloc(2), SwapMatrix(1, 2), DeallocMatrix(1), DeallocMatrix(2))
    assert matrix_spans(computation) == {1: [(0, 3)], 2: [(1, 4)]}


def test_a_loop_keeps_what_it_carries_from_its_end_to_its_start() -> None:
    """m1 is state: freed in the loop, allocated again behind, carried back by the goto. m2 lives within the loop."""
    loop = [Label("again"), alloc(2), DeallocMatrix(1), alloc(1), DeallocMatrix(2), SegmentMarker(), Goto("again")]
    spans = matrix_spans(program(2, alloc(1), *loop))
    assert spans == {1: [(0, 7)], 2: [(2, 5)]}


def test_what_a_goto_brings_lives_from_the_label_on() -> None:
    """m1 is allocated in the loop's second half and read in its first half the next time around."""
    loop = [SegmentMarker(), Label("again"), NoOp(), DeallocMatrix(1), NoOp(), alloc(1), Goto("again")]
    spans = matrix_spans(program(1, alloc(1), *loop))
    assert spans == {1: [(0, 7)]}


def test_commands_behind_a_goto_are_not_reached() -> None:
    computation = program(2, Label("again"), SegmentMarker(), Goto("again"), alloc(1), alloc(2))
    assert matrix_spans(computation) == {}


def test_goto_to_nowhere() -> None:
    with pytest.raises(ExecutionError, match="a goto names label 'agian', but the labels are: again"):
        matrix_spans(program(0, Label("again"), Goto("agian")))
