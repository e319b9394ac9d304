"""Matrices m1 and m2 conflict in one one if somebody would see another value than before."""

from __future__ import annotations

import pytest

from nnet3.engine.ir.analysis import analyse
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.parser import parse_computation
from nnet3.engine.ir.passes.merging import Candidates, CoalescedMatrix, MergeConflicts, Pair
from tests.ir.programs import lines

M1, M2 = 1, 2
PROGRAM = """
kernel sigmoid [] of [propagate_in_place]
m1(4, 3)
m2(4, 3)
m3(4, 3)
output 'output' is m3
m1 = zeros(4, 3)
m2 = zeros(4, 3)
m3 = zeros(4, 3)
m1.set(2)
{commands}
output m3 to user [for node: 'output']
m1 = []
m2 = []
"""


def conflicts(commands: str, *, because_of: str) -> set[tuple[int, int]]:
    """The conflicts of m1 and m2 laid together, which this command, a copy or a kernel, is a reason to do."""
    computation = parse_computation(PROGRAM.format(commands=commands.replace("; ", "\n")))
    check_computation(computation)
    reasons = {Pair(M1, M2, 0, 0): [lines(computation).index(because_of)]}
    candidates = Candidates(reasons, are_copies=because_of == COPY)
    coalesced = {number: CoalescedMatrix(M1, 0, 0) for number in (M1, M2)}
    return MergeConflicts(analyse(computation), candidates, coalesced).found()


COPY, SIGMOID = "m2 = m1", "sigmoid.Propagate(m1, &m2)"


@pytest.mark.parametrize(
    "commands",
    [
        "m2 = m1; m3 += m2; m3 += m1",
        "m2 = m1; m1.set(1); m3 += m1",
        "m2 = m1; m1(0:1, :).set(1); m1(0:1, :) += m2(2:3, :)",
    ],
    ids=["nobody changes", "only the original is read", "other rows are read than change"],
)
def test_copies_that_may_share(commands: str) -> None:
    assert conflicts(commands, because_of=COPY) == set()


@pytest.mark.parametrize(
    "commands",
    ["m2 = m1; m1.set(1); m3 += m2", "m2 = m1; m2.set(1); m3 += m1", "m2 = m1; m1(0:1, :).set(1); m3 += m2"],
    ids=["the original changes", "the copy changes", "a part of the original changes"],
)
def test_matrices_that_differ_after_a_copy_conflict(commands: str) -> None:
    found = conflicts(commands, because_of=COPY)
    assert found
    assert found <= {(M1, M2), (M2, M1)}


def test_a_kernel_that_may_run_in_place_is_no_conflict() -> None:
    assert conflicts(f"{SIGMOID}; m3 += m2", because_of=SIGMOID) == set()


def test_what_is_read_after_it_was_written_over_is() -> None:
    assert (M1, M2) in conflicts(f"{SIGMOID}; m3 += m1", because_of=SIGMOID)


def test_other_commands_that_read_one_and_write_the_other_are() -> None:
    assert (M1, M2) in conflicts(f"{SIGMOID}; m2 += m1", because_of=SIGMOID)
