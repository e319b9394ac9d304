"""In-place execution: kernels write where they read, if nobody needs the overwritten values again.

An output lies in the matrix of its input, and the derivative of the input in the matrix of the output's derivative.
Either all commands between two matrices work in place or none does.
"""

from __future__ import annotations

from collections import defaultdict

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Command
from nnet3.engine.ir.passes.merging import Candidates, Pair, merge_matrices
from nnet3.engine.ir.program_tables import SubMatrix


def work_in_place(computation: NnetComputation) -> NnetComputation:
    """Lay the output of a kernel over its input, if the kernel allows it and the input is dead afterwards."""
    commands: dict[Pair, list[int]] = defaultdict(list)
    blocks = computation.submatrices
    classes = {type(command) for command in computation.commands}
    asked = {c for c in classes if c.in_place_pairs is not Command.in_place_pairs}
    for number, command in enumerate(computation.commands):
        if type(command) not in asked:
            continue
        matrices = [blocks[operand].matrix for operand in command.schema.operands(command)]
        for read, written in command.in_place_pairs(computation):
            source, dest = blocks[read], blocks[written]
            if matrices.count(source.matrix) == matrices.count(dest.matrix) == 1 and _are_alike(source, dest):
                row_shift, col_shift = source.row_offset - dest.row_offset, source.col_offset - dest.col_offset
                commands[Pair(source.matrix, dest.matrix, row_shift, col_shift)].append(number)
    return merge_matrices(computation, Candidates(commands, are_copies=False)) if commands else computation


def _are_alike(one: SubMatrix, other: SubMatrix) -> bool:
    return (one.num_rows, one.num_cols) == (other.num_rows, other.num_cols)
