"""Recurrences of a kernel of which some columns can be multiplied alone, forward and backward."""

from __future__ import annotations

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import NnetComputation
from nnet3.ir.program_tables import IoInfo, MatrixInfo
from tests.ir.programs import node_matrix
from tests.ir.toy_kernels import DIM, KERNELS, WIDE


def recurrence(order: list[int], source_rows: list[int], *, late: bool = False, scale: float = 1.0) -> NnetComputation:
    """A wide kernel on Append(input, output of the step before); step by step, in this order of output rows.

    Output row i goes with row `source_rows[i]` of the input. If `late`, the input changes after the first step.
    """
    c = NnetComputation(kernels=list(KERNELS))
    x, wide, out = node_matrix(c, "input", 6), node_matrix(c, "wide_input", 1, cols=2 * DIM), node_matrix(c, "wide", 4)
    c.inputs, c.outputs = [IoInfo("input", x, 0)], [IoInfo("output", out, 0)]
    left, right = c.new_submatrix(wide, 0, 1, 0, DIM), c.new_submatrix(wide, 0, 1, DIM, DIM)
    c.commands = [*(cmd.AllocMatrix(m, zeroed=True) for m in (x, wide, out)), cmd.AcceptInput(x, "input")]
    for number, row in enumerate(order):
        here, there = c.new_submatrix(x, source_rows[row], 1), c.new_submatrix(out, row, 1)
        before = c.new_submatrix(out, order[number - 1], 1)
        c.commands += [
            cmd.MatrixCopy(left, here, scale),
            cmd.MatrixCopy(right, before) if number else cmd.SetConst(right, 0.0),
            cmd.Propagate(WIDE, "wide", (wide,), there),
        ]
        if late and not number:
            c.commands.append(cmd.SetConst(c.new_submatrix(x, 3, 1), 2.0))
    c.commands += [cmd.ProvideOutput(out, "output"), *(cmd.DeallocMatrix(m) for m in (x, wide))]
    check_computation(c)
    return c


def returning(
    order: list[int], dest_rows: list[int], *, added: tuple[int, ...] = (), read: int = -1
) -> NnetComputation:
    """The same backward: a step sends some columns to the input, and some to the step that comes after it here.

    The last one sends these to "seen". Output row i sends to row `dest_rows[i]` of the input, where those of `added`
    add. After step `read` of these the derivative of the first input goes to "seen", too.
    """
    c = NnetComputation(kernels=list(KERNELS))
    out, x = node_matrix(c, "wide", 4, is_deriv=True), node_matrix(c, "input", 6, is_deriv=True)
    room = c.new_matrix(1, 2 * DIM, MatrixInfo("wide_input", True, None))
    seen = node_matrix(c, "seen", 1)
    c.inputs, c.outputs = [IoInfo("wide", out, 0)], [IoInfo("input", x, 0), IoInfo("seen", seen, 0)]
    left, right = c.new_submatrix(room, 0, 1, 0, DIM), c.new_submatrix(room, 0, 1, DIM, DIM)
    c.commands = [*(cmd.AllocMatrix(m, zeroed=True) for m in (out, x, room, seen)), cmd.AcceptInput(out, "wide")]
    for number, row in enumerate(order):
        there = c.new_submatrix(x, dest_rows[row], 1)
        c.commands += [
            cmd.Backprop(WIDE, "wide", (0,), 0, c.new_submatrix(out, row, 1), (room,), (0,), update=False),
            cmd.MatrixAdd(there, left) if row in added else cmd.MatrixCopy(there, left),
        ]
        after = c.new_submatrix(out, order[number + 1], 1) if number + 1 < len(order) else seen
        c.commands.append(cmd.MatrixAdd(after, right))
        if number == read:
            c.commands.append(cmd.MatrixAdd(seen, c.new_submatrix(x, dest_rows[order[0]], 1)))
    c.commands += [cmd.ProvideOutput(x, "input"), cmd.ProvideOutput(seen, "seen")]
    c.commands += [cmd.DeallocMatrix(m) for m in (out, room)]
    check_computation(c)
    return c


def splicing(order: list[int], sent: list[list[tuple[int, bool]]]) -> NnetComputation:
    """A wide kernel backward, step by step in this order of output rows, whose input is several parts of one matrix.

    `sent[i][p]`: where output row i sends the columns of part p, a row of the input, and whether they are added there.
    """
    c = NnetComputation(kernels=list(KERNELS))
    width = 2 * DIM // len(sent[0])
    rows = 1 + max(row for parts in sent for row, _ in parts)
    out = node_matrix(c, "wide", len(sent), is_deriv=True)
    x = node_matrix(c, "input", rows, is_deriv=True, cols=width)
    room = c.new_matrix(1, 2 * DIM, MatrixInfo("wide_input", True, None))
    c.inputs, c.outputs = [IoInfo("wide", out, 0)], [IoInfo("input", x, 0)]
    c.commands = [*(cmd.AllocMatrix(m, zeroed=True) for m in (out, x, room)), cmd.AcceptInput(out, "wide")]
    for row in order:
        c.commands.append(
            cmd.Backprop(WIDE, "wide", (0,), 0, c.new_submatrix(out, row, 1), (room,), (0,), update=False)
        )
        for part, (dest, adds) in enumerate(sent[row]):
            columns, there = c.new_submatrix(room, 0, 1, part * width, width), c.new_submatrix(x, dest, 1)
            c.commands.append(cmd.MatrixAdd(there, columns) if adds else cmd.MatrixCopy(there, columns))
    c.commands += [cmd.ProvideOutput(x, "input"), *(cmd.DeallocMatrix(m) for m in (out, room))]
    check_computation(c)
    return c


def spliced(order: list[int], offsets: list[int]) -> NnetComputation:
    """The same for Append of the input at several offsets: whoever comes first to a row overwrites, others add."""
    sent: dict[int, list[tuple[int, bool]]] = {}
    seen = set[int]()
    for row in order:
        sent[row] = []
        for offset in offsets:
            dest = row + offset - min(offsets)
            sent[row].append((dest, dest in seen))
            seen.add(dest)
    return splicing(order, [sent[row] for row in sorted(sent)])
