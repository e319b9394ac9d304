"""A small program and wrong plans of it: a proof that misses one is worth nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.engine.runtime import Plan
from tests.runtime.programs import Program


def small_program() -> NnetComputation:
    """An output that is three rows of the input in another order, half a sum, next to a zero row; and a constant."""
    program = Program()
    given, copied, constant = program.input("input", 4, 3), program.matrix(4, 3, zeroed=True), program.matrix(4, 3)
    program.add(cmd.CopyRows(copied, given, program.index_table([2, -1, 0, 1]), 0.5))
    program.add(cmd.AddRows(copied, given, program.index_table([3, -1, 3, 0])))
    program.add(cmd.SetConst(constant, 0.5))
    program.output("output", copied)
    program.output("constant", constant)
    return program.computation


def with_views(made: Plan, column: int, change: int, view: int = -1) -> Plan:
    """The plan with one number of a view changed."""
    views = made.views.copy()
    views[view, column] += change
    return made.changed(views=views)


WRONG_PLANS: dict[str, Callable[[Plan], Plan]] = {
    "a view begins one element later": lambda made: with_views(made, 1, 1),
    "a view leaves the arena": lambda made: with_views(made, 1, 1000),
    "the rows of a view lie elsewhere": lambda made: with_views(made, 7, -1, view=0),
    "a view has a row less": lambda made: with_views(made, 4, -1, view=0),
    "a matrix lies where another is needed later": lambda made: with_views(
        made, 1, int(made.views[1, 1] - made.views[2, 1]), view=2
    ),
    "nothing is zeroed": lambda made: made.changed(
        opcodes=tuple("undefined" if name == "zero" else name for name in made.opcodes)
    ),
    "all lie in one place": lambda made: made.changed(views=np.where(np.arange(10) == 1, 0, made.views)),
    "other factors": lambda made: made.changed(call_number=made.call_number * 2),
    "a call is left out": lambda made: made.changed(segments=made.segments[:0]),
    "an input of other rows": lambda made: made.changed(segments=made.segments_with_rows(iter([1] * 9))),
}


def moving_program() -> NnetComputation:
    """Rows of an input in all ways in which plans move them, scaled; then one memo that is used twice."""
    program, rng, rows, cols = Program(), np.random.default_rng(1), 40, 8
    given, other = program.input("input", rows, cols), program.input("other", rows, cols)
    joined, *copies = program.matrix(4, cols), *(program.matrix(rows, cols) for _ in range(6))
    sums = [program.matrix(rows, cols, zeroed=True) for _ in range(6)]
    some = rng.random(rows) < 0.5
    spread = np.where(some, np.cumsum(some)[rng.permutation(rows)] % rows, -1)  # rows may come twice
    upward = np.full(rows, -1)
    upward[rng.permutation(np.flatnonzero(some))] = np.arange(some.sum())
    tables = [program.index_table(table.tolist()) for table in (rng.permutation(rows), spread, upward)]
    apart = [((given, other)[row % 2], row) for row in rng.permutation(rows)[:16].tolist()]
    sources = program.multi_table([*apart[:9], (-1, -1), *apart[9:], *[(-1, -1)] * (rows - 17)])
    ranges = [(first, first + int(length)) for first, length in enumerate(rng.integers(0, 4, rows - 4))]
    halves = [program.part(copies[5], first, rows // 2) for first in (0, rows // 2)]
    program.add(
        cmd.CopyRows(joined, given, program.index_table([4, 5, 0, 1]), -0.5),
        *(cmd.CopyRows(dest, given, table, 0.5) for dest, table in zip(copies, tables, strict=False)),
        *(cmd.AddRows(dest, given, table, 2.0) for dest, table in zip(sums, tables, strict=False)),
        cmd.CopyRows(copies[3], given, tables[2]),
        cmd.CopyRowsMulti(copies[4], sources, 1.0),
        cmd.AddRowsMulti(sums[3], sources, -0.5),
        cmd.AddRowRanges(program.part(sums[4], 0, rows - 4), given, program.range_table(ranges), 0.5),
        cmd.AddRowRanges(sums[5], given, program.range_table([(0, 2), (2, 4)] * (rows // 2)), 2.0),
        *(
            cmd.MatrixCopy(half, program.part(given, number, rows // 2), 2.0 - number)
            for number, half in enumerate(halves)
        ),
        cmd.MatrixAdd(halves[1], program.part(given, 2, rows // 2)),
        cmd.MatrixAdd(halves[0], program.part(given, 3, rows // 2), -1.0),
        cmd.CompressMatrix(copies[3]),
        cmd.SetConst(program.part(joined, 0, 1), 0.25),
        cmd.DecompressMatrix(copies[3]),
    )
    memo = program.kernel(KernelInfo("memo", (InputPromises(),), row_by_row=True, rows_apart=True, uses_memo=True))
    program.computation.num_memos = 1
    program.add(cmd.Propagate(memo, "memo", (given,), value := program.matrix(rows, cols), memo=0))
    for dest in (sums[0], sums[1]):
        program.add(cmd.Backprop(memo, "memo", (0,), 0, sums[5], (0,), (dest,), update=False, memo=0))
    for number, matrix in enumerate([joined, *copies, *sums, value]):
        program.output(f"output{number}", matrix)
    return program.computation


#: The opcodes of calls that use their number.
SCALED = {"fill", "scale", "scaled copy", "scaled add", "add each", "add to rows"}


def wrong_calls(made: Plan, since: int = 0) -> Iterator[tuple[str, Plan]]:
    """Yields plans without one of the calls, and with another number of one that uses it: the first call of each
    opcode of each command from `since` on, but none that lets memory be undefined.
    """
    opcodes = [made.opcodes[opcode] for opcode in made.call_opcode.tolist()]
    firsts = {key: call for call, key in reversed([*enumerate(zip(made.call_command.tolist(), opcodes, strict=True))])}
    for (command, opcode), call in firsts.items():
        if command < since:
            continue
        if opcode != "undefined":
            yield f"without call {call}, '{opcode}'", _without(made, call)
        if opcode in SCALED:
            numbers = made.call_number.copy()
            numbers[call] += 1
            yield f"call {call}, '{opcode}', with another number", made.changed(call_number=numbers)


def _without(made: Plan, call: int) -> Plan:
    kept = np.arange(made.num_calls) != call
    length = made.call_start[call + 1] - made.call_start[call]
    starts = np.delete(made.call_start, call)
    starts[call:] -= length
    loops = made.loops.copy()
    loops[:, :2] -= loops[:, :2] > call
    args = np.delete(made.call_args, np.arange(made.call_start[call], made.call_start[call + 1]))
    segments = [
        each._replace(
            first_call=each.first_call - (each.first_call > call), end_call=each.end_call - (each.end_call > call)
        )
        for each in made.segments
    ]
    return made.changed(
        call_opcode=made.call_opcode[kept], call_start=starts, call_args=args, call_number=made.call_number[kept],
        call_command=made.call_command[kept], loops=loops, segments=tuple(segments),
    )  # fmt: skip
