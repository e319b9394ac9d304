"""Interference: which matrices of a group cannot lie in one place."""

from __future__ import annotations

import pytest

from nnet3.ir import commands as cmd
from nnet3.ir.analysis import analyse
from nnet3.ir.commands import Command
from nnet3.ir.passes.merge_conflicts import MergeConflicts
from nnet3.ir.passes.places import Candidates, MatrixPlace, Pair
from tests.ir.passes.two_kernels import A_TOP, B_BOTTOM, OUT, A, B, X, program, sigmoid

FIRST = 7  # the number of the first command that a case gives


def _conflicts(*commands: Command, at: int, copies: bool) -> set[tuple[int, int]]:
    """Of A and B laid together, where command `at` of those given is why."""
    pair = Pair(A, B, 0, 0)
    computation = program(*commands, zeroed=True)
    candidates = Candidates({pair: [FIRST + at]}, are_copies=copies)
    groups = {A: MatrixPlace(A, 0, 0), B: MatrixPlace(A, 0, 0)}
    return MergeConflicts(analyse(computation), candidates, groups).found()


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ([cmd.MatrixCopy(B, A), cmd.MatrixAdd(OUT, B), cmd.MatrixAdd(OUT, A)], False),
        ([cmd.MatrixCopy(B, A), cmd.SetConst(A, 1.0), cmd.MatrixAdd(OUT, A)], False),
        ([cmd.MatrixCopy(B, A), cmd.SetConst(A, 1.0), cmd.MatrixAdd(OUT, B)], True),
        ([cmd.MatrixCopy(B, A), cmd.SetConst(B, 1.0), cmd.MatrixAdd(OUT, A)], True),
        ([cmd.MatrixCopy(B, A), cmd.SetConst(A_TOP, 1.0), cmd.MatrixAdd(OUT, B)], True),
    ],
)
def test_matrices_that_differ_after_a_copy_conflict(commands: list[Command], found: bool) -> None:
    conflicts = _conflicts(cmd.MatrixCopy(A, X), *commands, at=1, copies=True)
    assert bool(conflicts) == found
    assert conflicts <= {(A, B), (B, A)}


def test_a_kernel_that_may_run_in_place_is_no_conflict() -> None:
    assert _conflicts(cmd.MatrixCopy(A, X), sigmoid(A, B), cmd.MatrixAdd(OUT, B), at=1, copies=False) == set()


def test_what_is_read_after_it_was_written_over_is() -> None:
    commands = [cmd.MatrixCopy(A, X), sigmoid(A, B), cmd.MatrixAdd(OUT, A)]
    assert (A, B) in _conflicts(*commands, at=1, copies=False)


def test_other_commands_that_read_one_and_write_the_other_are() -> None:
    commands = [cmd.MatrixCopy(A, X), sigmoid(A, B), cmd.MatrixAdd(B, A)]
    assert (A, B) in _conflicts(*commands, at=1, copies=False)


def test_rows_that_do_not_meet_do_not_interfere() -> None:
    commands = [cmd.MatrixCopy(A, X), cmd.MatrixCopy(B, A), cmd.SetConst(A_TOP, 1.0), cmd.MatrixAdd(A_TOP, B_BOTTOM)]
    assert _conflicts(*commands, at=1, copies=True) == set()
