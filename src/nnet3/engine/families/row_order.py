"""The user's order of the rows of inputs and outputs: a program that copies rows to the order and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nnet3.base.index import IndexTable, find_rows
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation, RowNumbers, lazy_like
from nnet3.engine.ir.declarations import Command
from nnet3.engine.ir.program_tables import IoInfo, MatrixInfo, SubMatrix

_Io = tuple[str, bool]  # an input or output by name, and True for its derivative


def with_row_order(
    program: NnetComputation, inside: Mapping[_Io, IndexTable], wanted: Mapping[str, IndexTable]
) -> NnetComputation:
    """Returns the program with inputs and outputs whose rows have the `wanted` indexes, by name.

    `inside`: the indexes of the program's rows. Rows inside but not wanted are given as zero and not handed out;
    rows wanted but not inside are not looked at, or handed out as zero. Programs with equal commands keep them equal.
    """
    others = {io: rows for io, rows in inside.items() if not np.array_equal(rows, wanted[io[0]])}
    if not others:
        return program
    inputs = {io.name for io in program.inputs}
    tables = {}  # the row of the source for each of the destination
    for io, rows_inside in others.items():
        is_given = (io[0] in inputs) != io[1]
        outer = wanted[io[0]]
        tables[io] = find_rows(outer, rows_inside) if is_given else find_rows(rows_inside, outer)
    rows = program.row_numbers
    if rows is None:
        return _with_tables(program, tables, wanted)[0]
    name = f"in order {[(*io, bool((table < 0).any())) for io, table in tables.items()]}"
    kept = rows.kept.setdefault(name, {})
    if "added" not in kept:
        made, kept["added"] = _with_tables(program, tables, wanted)
        return replace(made, row_numbers=_rows_with(rows, kept["added"], tables, wanted, kept))
    more = _rows_with(rows, kept["added"], tables, wanted, kept)
    return lazy_like(program, lambda: _with_tables(program, tables, wanted)[0], row_numbers=more)


class _Added(NamedTuple):
    """The additions of an order to a program.

    `ios`: the inputs and outputs with a new matrix and table; `wholes`: the matrices with an additional
    sub-matrix, equal to the whole matrix.
    """

    ios: tuple[_Io, ...]
    wholes: tuple[int, ...]


def _rows_with(
    rows: RowNumbers,
    added: _Added,
    tables: Mapping[_Io, np.ndarray],
    wanted: Mapping[str, IndexTable],
    kept: dict[str, Any],
) -> RowNumbers:
    """Returns the numbers of rows of the program with the additions."""
    sizes = [len(wanted[name]) for name, _ in added.ios]
    matrices = np.append(rows.matrices, sizes).astype(np.int64)
    more = np.append(sizes, matrices[list(added.wholes)]).astype(np.int64)
    blocks = np.concatenate([rows.blocks, np.stack([np.zeros_like(more), more], axis=1)])
    index_tables = [*rows.index_tables, *(tables[io] for io in added.ios)]
    return replace(rows, blocks=blocks, matrices=matrices, index_tables=index_tables, kept=kept)


def _with_tables(
    program: NnetComputation, tables: Mapping[_Io, np.ndarray], wanted: Mapping[str, IndexTable]
) -> tuple[NnetComputation, _Added]:
    """Returns the program with inputs and outputs copied by `tables`, and the additions to it."""
    program = program.copy()
    inputs = {io.name for io in program.inputs}
    new: dict[_Io, int] = {}
    replaced: dict[int, None] = {}  # matrices that were inputs or outputs

    def matrix_for(io: _Io, number: int) -> int:
        """Returns the sub-matrix of the new matrix that is accepted or provided instead of sub-matrix `number`."""
        block = program.submatrices[number]
        indexes = wanted[io[0]]
        info = MatrixInfo(program.matrix_info[block.matrix].node, io[1], indexes)
        new[io] = program.new_matrix(len(indexes), block.num_cols, info)
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
            if io in tables:
                given = matrix_for(io, command.dest)
                commands.append(cmd.AllocMatrix(given, zeroed=False))
                waiting.append(cmd.CopyRows(command.dest, given, program.new_index_table(tables[io])))
                waiting.append(cmd.DeallocMatrix(given))
                command = replace(command, dest=given)
        elif isinstance(command, cmd.ProvideOutput):
            first_output = len(commands) if first_output < 0 else first_output
            io = command.name, command.name in inputs
            if io in tables:
                taken = matrix_for(io, command.source)
                copy = cmd.CopyRows(taken, command.source, program.new_index_table(tables[io]))
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
    wholes = tuple([matrix for matrix in replaced if matrix not in ended])
    for matrix in wholes:
        rows, columns = program.matrices[matrix]
        program.submatrices.append(SubMatrix(matrix, 0, rows, 0, columns))
        commands.append(cmd.DeallocMatrix(len(program.submatrices) - 1))
    program.commands = commands
    program.inputs, program.outputs = (
        [IoInfo(io.name, new.get((io.name, False), io.value), new.get((io.name, True), io.deriv)) for io in ios]
        for ios in (program.inputs, program.outputs)
    )
    return program, _Added(tuple(new), wholes)
