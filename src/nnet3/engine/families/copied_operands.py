"""Copies of operands: rows of several times, brought together for kernels in loops whose operands have unequal times.

In an iteration of a recurrence with a lag of 3 frames a kernel may write rows of t, t + 1 and t + 2 and read rows of
three earlier times, at which more sequences have rows. Of one time the rows of the remaining sequences come first; of
three times the remaining rows lie between further rows. So a copy in the loop (moved time by time, see
`families.ragged`) gives the kernel exactly the remaining rows; rows that the kernel writes or adds to are copied or
added from the copy."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from nnet3.base.index import NO_TIME, T
from nnet3.engine.families.operand_rows import OperandRows
from nnet3.engine.families.ragged_regions import names_of_operands
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Command, with_operands, with_values
from nnet3.engine.ir.objects import present
from nnet3.engine.ir.program_tables import MatrixInfo
from nnet3.engine.ir.repeats import iterations_unrolled


def with_copied_operands(computation: NnetComputation, operands: OperandRows) -> NnetComputation:
    """Returns the program in which kernels in loops work on copies of unlike operands; itself without unlike operands.

    `operands`: the operands of the program without Repeat.
    """
    result, begin = replace(computation.copy(), commands=[]), 0
    for (repeat, body), (_, iterations) in zip(computation.repeats(), iterations_unrolled(computation), strict=True):
        commands, copies = list[Command](), list[int]()
        for number, first in zip(body, iterations, strict=False):
            unlike = operands.unlike.get(first, {})
            copied = [i for i, operand in unlike.items() if operands.can_copy(operand)]
            commands += _on_copies(result, computation.commands[number], copied, copies)
        result.commands += computation.commands[begin : body.start - 1]
        result.commands += [cmd.AllocMatrix(copy, zeroed=False) for copy in copies]
        result.commands += [with_values(repeat, length=len(commands)), *commands]
        result.commands += map(cmd.DeallocMatrix, copies)
        begin = body.stop
    result.commands += computation.commands[begin:]
    return result if len(result.commands) > len(computation.commands) else computation


def _on_copies(
    computation: NnetComputation, command: Command, copied: Collection[int], copies: list[int]
) -> list[Command]:
    """Returns a kernel's command on new matrices for the operands `copied`, which are added to `copies`."""
    numbers, before, after = list(command.schema.operands(command)), list[Command](), list[Command]()
    names = names_of_operands(command)
    for i in copied:
        operand = numbers[i]
        numbers[i] = copy = _new_copy(computation, operand)
        copies.append(copy)
        if names[i] == "added_derivs":
            before.append(cmd.SetConst(copy, 0.0))
            after.append(cmd.MatrixAdd(operand, copy))
        elif names[i] == "input_derivs" or (names[i] == "output" and isinstance(command, cmd.Propagate)):
            after.append(cmd.MatrixCopy(operand, copy))
        else:
            before.append(cmd.MatrixCopy(copy, operand))
    return [*before, with_operands(command, numbers) if copied else command, *after]


def _new_copy(computation: NnetComputation, operand: int) -> int:
    """Returns a new matrix for the rows that an operand has in an iteration, without times."""
    block = computation.submatrices[operand]
    info = computation.matrix_info[block.matrix]
    indexes = present(info.indexes)[block.row_offset : block.row_offset + block.num_rows].copy()
    indexes[:, T] = NO_TIME
    info = MatrixInfo(info.node, info.is_deriv, indexes)
    return computation.new_matrix(block.num_rows, block.num_cols, info)
