"""What the commands declare: the rest of the package knows nothing else of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.commands import AccessMode, Command
from nnet3.engine.ir.computation import NnetComputation
from tests.ir.programs import command_types, multi_table

READ, WRITE, UPDATE = AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE
SEVERAL = [(5, 0), (-1, -1), (6, 1), (5, 2)]  # the row table, number 0

DECLARED: list[tuple[Command, Mapping[int, AccessMode], bool]] = [
    (cmd.AllocMatrix(1, zeroed=True), {}, True),
    (cmd.AllocMatrix(1, zeroed=False), {}, True),
    (cmd.DeallocMatrix(1), {}, True),
    (cmd.SetConst(1, 0.0), {1: WRITE}, False),
    (cmd.CompressMatrix(1), {1: UPDATE}, True),
    (cmd.DecompressMatrix(1), {1: UPDATE}, True),
    (cmd.Propagate(0, "affine", (1, 2), 3), {1: READ, 2: READ, 3: WRITE}, False),
    (cmd.Propagate(0, "affine", (), 3), {3: WRITE}, False),
    (cmd.Propagate(0, "affine", (1,), 3, memo=0), {1: READ, 3: WRITE}, False),
    (cmd.Propagate(0, "affine", (1,), 3, store_stats=True), {1: READ, 3: WRITE}, True),
    (cmd.PropagateAgain(0, "affine", (1,), 3, memo=0), {1: READ, 3: WRITE}, False),
    (cmd.Backprop(0, "a", (1,), 2, 3, (4,), (0,), update=True), {1: READ, 2: READ, 3: READ, 4: WRITE}, True),
    (cmd.Backprop(0, "a", (0,), 0, 3, (4,), (0,), update=False), {3: READ, 4: WRITE}, False),
    (cmd.Backprop(0, "a", (1, 2), 0, 3, (0, 0), (0, 0), update=False), {1: READ, 2: READ, 3: READ}, False),
    (
        cmd.Backprop(0, "a", (0, 0), 0, 3, (5, 0), (0, 6), update=False),
        {3: READ, 5: WRITE, 6: UPDATE},
        False,
    ),
    (cmd.MatrixCopy(1, 2), {1: WRITE, 2: READ}, False),
    (cmd.MatrixAdd(1, 2), {1: UPDATE, 2: READ}, False),
    (cmd.CopyRows(1, 2, 0), {1: WRITE, 2: READ}, False),
    (cmd.AddRows(1, 2, 0), {1: UPDATE, 2: READ}, False),
    (cmd.CopyRowsMulti(1, 0), {1: WRITE, 5: READ, 6: READ}, False),
    (cmd.AddRowsMulti(1, 0), {1: UPDATE, 5: READ, 6: READ}, False),
    (cmd.AddToRowsMulti(1, 0), {1: READ, 5: UPDATE, 6: UPDATE}, False),
    (cmd.AddRowRanges(1, 2, 0), {1: UPDATE, 2: READ}, False),
    (cmd.AcceptInput(1, "a"), {1: WRITE}, True),
    (cmd.ProvideOutput(1, "a"), {1: READ}, True),
    (cmd.Repeat(3, 2, memo_step=1), {}, True),
    (cmd.SegmentMarker(), {}, True),
]


@pytest.mark.parametrize(("command", "accesses", "side_effects"), DECLARED)
def test_accesses_follow_from_declarations(
    command: Command, accesses: Mapping[int, AccessMode], side_effects: bool
) -> None:
    computation = NnetComputation()
    for _ in range(6):
        computation.new_matrix(4, 2)
    multi_table(computation, SEVERAL)
    declared = command.accesses(computation)
    assert {access.submatrix: access.mode for access in declared} == accesses
    assert len(declared) == len(accesses)
    assert command.side_effects is side_effects


def test_every_command_is_in_the_table() -> None:
    assert {type(command) for command, _, _ in DECLARED} == command_types()
