"""The precomputed entries of a ragged program, with the rows behind each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnet3.base.index import NO_TIME, IndexTable, T
from nnet3.engine.families.operand_rows import goes_row_by_row
from nnet3.engine.families.precomputed import Entry, KernelRules
from nnet3.engine.families.ragged_rows import IndexRows, NotRaggedError
from nnet3.engine.families.ragged_slots import RaggedEntry, SideRows
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import KernelRows, MatrixInfo


def entry_of(
    computation: NnetComputation, rows: IndexRows, command: cmd.Propagate, places: Sequence[int]
) -> RaggedEntry:
    """Returns the precomputed entry of a command with the rows behind it; `places` are the places of the operands.

    Raises NotRaggedError if nothing names the rows.
    """
    made_of = computation.precomputed_rows[command.precomputed - 1]
    is_row_by_row = goes_row_by_row(computation.kernels[command.kernel])

    def side(number: int, place: int, stored: IndexTable) -> SideRows:
        block = computation.submatrices[number]
        if len(stored) == block.num_rows:
            return SideRows(place, stored)
        info = computation.matrix_info.get(block.matrix)
        if block.matrix in rows.rooms or info is None or info.indexes is None:
            raise NotRaggedError(f"nothing says of which rows node {command.node} has precomputed something")
        return SideRows(place, info.indexes[block.row_offset : block.row_offset + block.num_rows])

    outputs = side(command.output, places[-1], made_of.outputs)
    inputs = SideRows(-1, outputs.indexes[:0])
    if command.inputs:
        inputs = outputs if is_row_by_row else side(command.inputs[0], places[0], made_of.inputs)
    return RaggedEntry(command.node, made_of.runs_backward, bool(command.inputs) and not is_row_by_row, inputs, outputs)


def checked_entry(entry: RaggedEntry, known: Entry, rows: IndexRows, rules: KernelRules) -> RaggedEntry:
    """Returns an entry certainly made of its rows, given the program's entry `known`.

    The rows of a matrix may stand for rows of another node at other times: then all are later or earlier by one number.
    Raises NotRaggedError where nothing is certain.
    """
    if entry.orders_rows and not _is_made_of(entry, known, rules):
        inputs, outputs = (side.indexes[side.indexes[:, T] != NO_TIME] for side in (entry.inputs, entry.outputs))
        moved, is_real = entry.inputs.indexes.copy(), entry.inputs.indexes[:, T] != NO_TIME
        moved[is_real, T] += rules.first_input(entry.node, outputs) - inputs[:, T].min()
        entry = replace(entry, inputs=entry.inputs._replace(indexes=moved))
    if not _is_made_of(entry, known, rules):
        raise NotRaggedError(f"it is not certain of which rows node {entry.node} has precomputed something")
    if not entry.orders_rows:
        return entry
    of_inputs = MatrixInfo(rules.operand(entry.node), False, entry.inputs.indexes)
    of_outputs = MatrixInfo(entry.node, False, entry.outputs.indexes)
    return replace(
        entry,
        inputs=entry.inputs._replace(place=rows.place_of(of_inputs)),
        outputs=entry.outputs._replace(place=rows.place_of(of_outputs)),
    )


def _is_made_of(entry: RaggedEntry, known: Entry, rules: KernelRules) -> bool:
    """True if the rows of an entry give the arrays of `known`."""
    sides = entry.inputs.indexes, entry.outputs.indexes
    if entry.orders_rows and not all(map(_same_rows, sides, rules.arrange(entry.node, *sides))):
        return False
    made, known = rules.precompute(KernelRows(entry.node, entry.runs_backward, *sides)) or {}, known or {}
    return made.keys() == known.keys() and all(np.array_equal(made[name], known[name]) for name in made)


def _same_rows(one: IndexTable, other: IndexTable) -> bool:
    """True if two tables have equal rows, and padding at equal places."""
    is_real = one[:, T] != NO_TIME
    return np.array_equal(one[:, T], other[:, T]) and np.array_equal(one[is_real], other[is_real])
