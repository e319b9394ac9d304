"""Programs of two kernels, and their sub-matrices."""

from __future__ import annotations

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.commands import Command
from nnet3.ir.computation import NnetComputation
from nnet3.ir.program_tables import IoInfo
from tests.ir.programs import node_matrix
from tests.ir.toy_kernels import AFFINE, KERNELS, SIGMOID

X, A, B, C, OUT, SMALL = range(1, 7)  # an input, three matrices, an output, a smaller one

A_TOP, A_BOTTOM, B_TOP, B_BOTTOM = range(7, 11)  # rows 0:1 and 2:3


def program(*commands: Command, zeroed: bool = False) -> NnetComputation:
    c = NnetComputation(kernels=list(KERNELS), need_model_derivative=True)
    x, a, b, d, out = (node_matrix(c, name, 4) for name in ("input", "a", "b", "c", "output"))
    small = node_matrix(c, "small", 2)
    for matrix in (a, b):
        c.new_submatrix(matrix, 0, 2)
        c.new_submatrix(matrix, 2, 2)
    c.inputs, c.outputs = [IoInfo("input", x, 0)], [IoInfo("output", out, 0)]
    inner = (a, b, d, small)
    c.commands = [
        *(cmd.AllocMatrix(matrix, zeroed) for matrix in (x, *inner, out)),
        cmd.AcceptInput(x, "input"),
        *commands,
        cmd.ProvideOutput(out, "output"),
        *(cmd.DeallocMatrix(matrix) for matrix in (x, *inner)),
    ]
    check_computation(c)
    return c


def sigmoid(source: int, dest: int) -> cmd.Propagate:
    return cmd.Propagate(SIGMOID, "sigmoid", (source,), dest)


def affine(source: int, dest: int) -> cmd.Propagate:
    return cmd.Propagate(AFFINE, "affine", (source,), dest)
