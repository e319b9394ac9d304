"""A command of every class, and its line."""

from __future__ import annotations

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from tests.ir.programs import index_table, multi_table, range_table
from tests.ir.toy_kernels import AFFINE, CENTRE, KERNELS, PRODUCT


def every_kind() -> NnetComputation:
    """Matrices, blocks, tables, kernels and memos for the commands below."""
    c = NnetComputation(kernels=list(KERNELS), num_memos=4, precomputed=[None, {}])
    for _ in range(4):
        c.new_matrix(10, 40)  # sub-matrices 1 to 4, each all of m1 to m4
    c.new_submatrix(1, 0, 10, 20, 20)  # 5
    c.new_submatrix(1, 2, 5)  # 6
    c.new_submatrix(2, 3, 1, 7, 1)  # 7
    index_table(c, [0, 1, 2, -1, -1, 7, 9, 8, 7, -1])
    multi_table(c, [(1, 0), (1, 1), (6, 3), (-1, -1), (-1, -1), (7, 0), (3, 4), (3, 5), (3, 6), (4, 0)])
    range_table(c, [(0, 3), (3, 3), (3, 4), (4, 9), (9, 9), (9, 10), (0, 0), (0, 0), (0, 0), (0, 1)])
    return c


ROW_LIST = "[0:2, -1x2, 7, 9, 8, 7, -1]"
MULTI_LIST = "[m1(0:1, :), m1(5, :), -1x2, m2(3, 7), m3(4:6, :), m4(0, :)]"
COMMANDS = [
    (cmd.AllocMatrix(1, zeroed=True), "m1 = zeros(10, 40)"),
    (cmd.AllocMatrix(1, zeroed=False), "m1 = undefined(10, 40)"),
    (cmd.DeallocMatrix(2), "m2 = []"),
    (cmd.SetConst(6, 0.5), "m1(2:6, :).set(0.5)"),
    (cmd.CompressMatrix(3), "m3.compress()"),
    (cmd.DecompressMatrix(3), "m3.decompress()"),
    (cmd.Propagate(AFFINE, "affine", (1,), 2), "affine.Propagate(m1, &m2)"),
    (cmd.Propagate(AFFINE, "affine", (), 2, 1), "affine.Propagate((), &m2) [precomputed 1]"),
    (
        cmd.Propagate(PRODUCT, "gate", (1, 2), 3, memo=2, store_stats=True),
        "product.Propagate((m1, m2), &m3) [node gate, memo 2, store stats]",
    ),
    (cmd.PropagateAgain(AFFINE, "affine", (1,), 2, memo=3), "affine.Propagate(m1, &m2) [memo 3] again"),
    (
        cmd.Backprop(AFFINE, "affine", (1,), 0, 2, (3,), (0,), update=True),
        "affine.Backprop(m1, [], m2, &m3) [update]",
    ),
    (
        cmd.Backprop(PRODUCT, "gate", (1, 2), 3, 4, (5, 0), (0, 0), update=False, precomputed=1, memo=0),
        "product.Backprop((m1, m2), m3, m4, (&m1(:, 20:39), [])) [node gate, precomputed 1, memo 0]",
    ),
    (
        cmd.Backprop(PRODUCT, "product", (1, 2), 0, 4, (5, 0), (0, 3), update=False),
        "product.Backprop((m1, m2), [], m4, (&m1(:, 20:39), += m3))",
    ),
    (
        cmd.Backprop(AFFINE, "affine", (1,), 0, 2, (0,), (3,), update=True),
        "affine.Backprop(m1, [], m2, += m3) [update]",
    ),
    (cmd.Backprop(CENTRE, "centre", (0,), 0, 1, (0,), (0,), update=False), "centre.Backprop([], [], m1, [])"),
    (cmd.MatrixCopy(2, 1), "m2 = m1"),
    (cmd.MatrixCopy(6, 1, -2.0), "m1(2:6, :) = -2 * m1"),
    (cmd.MatrixAdd(2, 5, 0.5), "m2 += 0.5 * m1(:, 20:39)"),
    (cmd.MatrixAdd(7, 7), "m2(3, 7) += m2(3, 7)"),
    (cmd.CopyRows(2, 1, 0), f"m2.CopyRows(1, m1{ROW_LIST})"),
    (cmd.AddRows(2, 6, 0, 0.25), f"m2.AddRows(0.25, m1(2:6, :){ROW_LIST})"),
    (cmd.CopyRowsMulti(2, 0), f"m2.CopyRowsMulti(1, {MULTI_LIST})"),
    (cmd.AddRowsMulti(2, 0), f"m2.AddRowsMulti(1, {MULTI_LIST})"),
    (cmd.AddToRowsMulti(2, 0, 2.0), f"m2.AddToRowsMulti(2, {MULTI_LIST})"),
    (cmd.AddRowRanges(2, 1, 0), "m2.AddRowRanges(1, m1, [0:2, -, 3, 4:8, -, 9, -, -, ... 10 rows])"),
    (cmd.AcceptInput(1, "input"), "m1 = user input [for node: 'input']"),
    (cmd.ProvideOutput(1, "out"), "output m1 to user [for node: 'out']"),
    (cmd.Repeat(9, 3), "repeat 9 times, i = 0:8, the next 3 commands"),
    (
        cmd.Repeat(9, 3, memo_step=-2, precomputed_step=1),
        "repeat 9 times, i = 0:8, the next 3 commands [memo -2i, precomputed +1i]",
    ),
    (cmd.SegmentMarker(), "[end of segment]"),
]
