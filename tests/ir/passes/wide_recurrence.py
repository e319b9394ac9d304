"""Recurrences, backward, of a kernel of which some columns can be multiplied alone."""

from __future__ import annotations

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import IoInfo, MatrixInfo
from tests.ir.programs import node_matrix
from tests.ir.toy_kernels import DIM, KERNELS, WIDE


def splicing(order: list[int], sent: list[list[tuple[int, bool]]]) -> NnetComputation:
    """A wide kernel backward, step by step in this order of output rows, whose input is several parts of one matrix.

    `sent[i][p]`: where output row i sends the columns of part p, a row of the input, and whether they are added there.
    """
    c = NnetComputation(kernels=list(KERNELS))
    width = 2 * DIM // len(sent[0])
    rows = 1 + max(row for parts in sent for row, _ in parts)
    out = node_matrix(c, "wide", len(sent), is_deriv=True)
    x = node_matrix(c, "input", rows, is_deriv=True, cols=width)
    buffer = c.new_matrix(1, 2 * DIM, MatrixInfo("wide_input", True, None))
    c.inputs, c.outputs = [IoInfo("wide", out, 0)], [IoInfo("input", x, 0)]
    c.commands = [*(cmd.AllocMatrix(m, zeroed=True) for m in (out, x, buffer)), cmd.AcceptInput(out, "wide")]
    for row in order:
        c.commands.append(
            cmd.Backprop(WIDE, "wide", (0,), 0, c.new_submatrix(out, row, 1), (buffer,), (0,), update=False)
        )
        for part, (dest, adds) in enumerate(sent[row]):
            columns, there = c.new_submatrix(buffer, 0, 1, part * width, width), c.new_submatrix(x, dest, 1)
            c.commands.append(cmd.MatrixAdd(there, columns) if adds else cmd.MatrixCopy(there, columns))
    c.commands += [cmd.ProvideOutput(x, "input"), *(cmd.DeallocMatrix(m) for m in (out, buffer))]
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
