"""with_row_order: a program whose inputs and outputs have their rows in another order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nnet3.index import IndexTable, find_rows
from nnet3.ir import commands as cmd
from nnet3.ir.computation import IoInfo, MatrixInfo, NnetComputation, SubMatrix
from nnet3.ir.declarations import Command

_Io = tuple[str, bool]  # an input or output by name, and True for its derivative


def with_row_order(
    program: NnetComputation, inside: Mapping[_Io, IndexTable], wanted: Mapping[str, IndexTable]
) -> NnetComputation:
    """Returns the program with inputs and outputs whose rows have the `wanted` indexes, by name.

    `inside`: the indexes that the rows have now. What is not among the wanted ones is given as zero and not handed out;
    what is wanted and not inside is not looked at, or handed out as zero.
    """
    others = {io: rows for io, rows in inside.items() if not np.array_equal(rows, wanted[io[0]])}
    if not others:
        return program
    program = program.copy()
    inputs = {io.name for io in program.inputs}
    new: dict[_Io, int] = {}
    replaced: dict[int, None] = {}  # matrices that were inputs or outputs

    def matrix_for(io: _Io, number: int) -> int:
        """Returns the sub-matrix of the new matrix that takes the place of one that is accepted or provided."""
        block = program.submatrices[number]
        indexes = wanted[io[0]]
        info = MatrixInfo(program.matrix_info[block.matrix].node, io[1], indexes)
        new[io] = program.new_matrix(len(indexes), block.num_cols, info, program.matrices[block.matrix].dtype)
        replaced[block.matrix] = None
        return new[io]

    commands: list[Command] = []
    waiting: list[Command] = []  # until all inputs are accepted, for they begin a segment
    first_output = -1  # outputs end it: what computes stands before this command
    for command in program.commands:
        if isinstance(command, cmd.DeallocMatrix) and waiting:
            waiting.append(command)
            continue
        if not isinstance(command, cmd.AcceptInput | cmd.AllocMatrix):
            commands += waiting
            waiting = []
        if isinstance(command, cmd.AcceptInput):
            io = command.name, command.name not in inputs
            if io in others:
                given, rows = matrix_for(io, command.dest), find_rows(wanted[io[0]], others[io])
                commands.append(cmd.AllocMatrix(given, zeroed=False))
                waiting.append(cmd.CopyRows(command.dest, given, program.new_index_table(rows)))
                waiting.append(cmd.DeallocMatrix(given))
                command = replace(command, dest=given)
        elif isinstance(command, cmd.ProvideOutput):
            first_output = len(commands) if first_output < 0 else first_output
            io = command.name, command.name in inputs
            if io in others:
                taken, rows = matrix_for(io, command.source), find_rows(others[io], wanted[io[0]])
                copy = cmd.CopyRows(taken, command.source, program.new_index_table(rows))
                commands[first_output:first_output] = [cmd.AllocMatrix(taken, zeroed=False), copy]
                first_output += 2
                command = replace(command, source=taken)
        elif isinstance(command, cmd.AllocMatrix) and first_output >= 0:
            commands.insert(first_output, command)
            first_output += 1
            continue
        elif isinstance(command, cmd.SegmentMarker):
            first_output = -1
        commands.append(command)
    commands += waiting
    ended = {program.submatrices[each.matrix].matrix for each in commands if isinstance(each, cmd.DeallocMatrix)}
    for matrix in replaced.keys() - ended:
        whole = SubMatrix(matrix, 0, program.matrices[matrix].num_rows, 0, program.matrices[matrix].num_cols)
        commands.append(cmd.DeallocMatrix(program.find_or_add(whole)))
    program.commands = commands
    program.inputs, program.outputs = (
        [IoInfo(io.name, new.get((io.name, False), io.value), new.get((io.name, True), io.deriv)) for io in ios]
        for ios in (program.inputs, program.outputs)
    )
    return program
