"""Matrices in one place: what is seen stays, what differs is apart."""

from __future__ import annotations

import pytest

from nnet3.ir import commands as cmd
from nnet3.ir.analysis import analyse
from nnet3.ir.checker import check_computation
from nnet3.ir.commands import Command
from nnet3.ir.passes.merging import MergeConflicts
from nnet3.ir.passes.places import Candidates, MatrixPlace, Pair
from nnet3.ir.passes.work_in_place import work_in_place
from tests.ir.passes.two_kernels import (
    A_TOP,
    B_BOTTOM,
    B_TOP,
    OUT,
    A,
    B,
    X,
    affine,
    program,
    sigmoid,
)
from tests.ir.programs import lines


def test_zeros_that_are_seen_stay() -> None:
    """Rows 2:3 of m3 are zero, and rows 2:3 of m2 are not."""
    commands = [affine(X, A), sigmoid(A_TOP, B_TOP), cmd.MatrixCopy(OUT, B)]
    computation = program(*commands, zeroed=True)
    assert work_in_place(computation) is computation
    all_rows = program(affine(X, A), sigmoid(A, B), cmd.MatrixCopy(OUT, B), zeroed=True)
    assert work_in_place(all_rows) is not all_rows


def test_what_lies_outside_stays_as_it_is() -> None:
    c = program(cmd.MatrixCopy(OUT, X))
    weight = c.new_outside("W", 4, 3, writable=True)
    c.commands[7:7] = [sigmoid(weight, A), cmd.MatrixCopy(B, A)]
    check_computation(c)
    assert work_in_place(c) is c


def test_other_dtypes_are_other_places() -> None:
    c = program(affine(X, A), sigmoid(A, B), cmd.MatrixCopy(OUT, B))
    c.matrices[2] = c.matrices[2]._replace(dtype="bfloat16")
    assert work_in_place(c) is c


def test_the_life_of_the_shared_place() -> None:
    """From the first allocation of the two to the last deallocation."""
    c = program(affine(X, A), sigmoid(A, B), cmd.MatrixCopy(OUT, B))
    after = work_in_place(c)
    assert lines(after)[1] == "m2 = undefined(4, 3)"
    assert sum(line.startswith("m3") for line in lines(after)) == 0
    assert lines(after).count("m2 = []") == 1


def test_an_output_that_stays_keeps_its_place() -> None:
    """It was never deallocated, so neither is the place that it shares."""
    after = work_in_place(program(affine(X, A), sigmoid(A, OUT)))
    check_computation(after)
    assert "output m2 to user [for node: 'output']" in lines(after)
    assert not {"m2 = []", "m5 = []"} & set(lines(after))


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
