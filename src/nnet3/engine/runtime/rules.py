"""Rules: one small function for each class of commands, which plans the calls for a command.

To add a command: a class in `nnet3.engine.ir`, a rule here, and tests; a call unknown to all earlier rules
also needs an opcode in `nnet3.engine.runtime.calls`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnet3.engine.ir import commands as cmd
from nnet3.engine.runtime.planner import Planner, Rule
from nnet3.engine.runtime.row_moves import RowMoves, plan_add_ranges, plan_moves, plan_rows, plan_zero_rows
from nnet3.errors import ExecutionError

RULES: dict[type[cmd.Command], Rule] = {}


def rule(command: type[cmd.Command]) -> Callable[[Rule], Rule]:
    """Register the rule of a command class."""

    def register(function: Rule) -> Rule:
        RULES[command] = function
        return function

    return register


def plan_command(command: cmd.Command, planner: Planner) -> None:
    """Plan the calls of a command; control needs none. Raises ExecutionError for a command class without a rule."""
    if command.role is cmd.Role.CONTROL:
        return
    found = planner.own_rules.get(type(command)) or RULES.get(type(command))
    if found is None:
        known = ", ".join(sorted(known.__name__ for known in RULES))
        raise ExecutionError(
            f"command c{planner.command} is a {type(command).__name__}, which has no rule in "
            f"nnet3.engine.runtime.rules; there are rules for: {known}"
        )
    found(command, planner)


# ---- memory ----


@rule(cmd.AllocMatrix)
def _alloc_matrix(command: cmd.AllocMatrix, planner: Planner) -> None:
    planner.call("zero" if command.zeroed else "undefined", planner.view(command.matrix))


@rule(cmd.DeallocMatrix)
def _dealloc_matrix(command: cmd.DeallocMatrix, planner: Planner) -> None:
    """Plans no call: the memory plan has dealt with it."""


@rule(cmd.SetConst)
def _set_const(command: cmd.SetConst, planner: Planner) -> None:
    planner.call("fill", planner.view(command.dest), number=command.value)


@rule(cmd.CompressMatrix)
def _compress_matrix(command: cmd.CompressMatrix, planner: Planner) -> None:
    planner.call("positive", planner.compressed(command.matrix), planner.view(command.matrix))


@rule(cmd.DecompressMatrix)
def _decompress_matrix(command: cmd.DecompressMatrix, planner: Planner) -> None:
    planner.call("copy", planner.view(command.matrix), planner.compressed(command.matrix))


# ---- kernels ----


@rule(cmd.Propagate)
def _propagate(command: cmd.Propagate, planner: Planner) -> None:
    inputs, output = [planner.view(s) for s in command.inputs], planner.view(command.output)
    if planner.kernels[command.kernel].output_width < 0:
        input_width = planner.block(command.inputs[0]).num_cols if len(inputs) == 1 else -1
        width = planner.block(command.output).num_cols
        planner.note_kernel(command.kernel, input_width=input_width, output_width=width)
    if not command.store_stats and command.memo < 0:
        planner.call("propagate", command.kernel, command.precomputed, output, *inputs)
        return
    if command.store_stats:
        planner.note_kernel(command.kernel, stores_stats=True)
    more = command.memo, int(command.store_stats)
    planner.call("propagate and keep", command.kernel, command.precomputed, output, *more, *inputs)


@rule(cmd.PropagateAgain)
def _propagate_again(command: cmd.PropagateAgain, planner: Planner) -> None:
    views = planner.view(command.output), *[planner.view(s) for s in command.inputs]
    planner.call("propagate again", command.kernel, command.precomputed, command.memo, *views)


@rule(cmd.Backprop)
def _backprop(command: cmd.Backprop, planner: Planner) -> None:
    """Gives -1 for the views of derivatives that are not computed."""
    if command.update and not planner.kernels[command.kernel].is_updated:
        planner.note_kernel(command.kernel, is_updated=True)
    is_last_use = command.memo >= 0 and planner.command in planner.last_memo_users
    fixed = [
        *(command.kernel, command.precomputed, int(command.update), command.memo, int(is_last_use)),
        *(planner.view(command.output), planner.view(command.output_deriv), len(command.inputs)),
    ]
    derivs = [written or added for written, added in zip(command.input_derivs, command.added_derivs, strict=True)]
    views = [planner.view(s) if s else -1 for s in derivs]
    inputs, added = [planner.view(s) for s in command.inputs], [int(s != 0) for s in command.added_derivs]
    planner.call("backprop", *fixed, *inputs, *views, *added)


# ---- copying and adding ----


@rule(cmd.MatrixAdd)
@rule(cmd.MatrixCopy)
def _whole(command: cmd.MatrixCopy | cmd.MatrixAdd, planner: Planner) -> None:
    opcode = "add" if isinstance(command, cmd.MatrixAdd) else "copy"
    opcode = opcode if command.scale == 1 else f"scaled {opcode}"
    planner.call(opcode, planner.view(command.dest), planner.view(command.source), number=command.scale)


@rule(cmd.CopyRows)
def _copy_rows(command: cmd.CopyRows, planner: Planner) -> None:
    pattern, missing = planner.pattern(command.indexes)
    plan_zero_rows(planner, command.dest, missing)
    plan_rows(planner, command.dest, command.source, pattern, command.scale, add=False)


@rule(cmd.AddRows)
def _add_rows(command: cmd.AddRows, planner: Planner) -> None:
    pattern, _ = planner.pattern(command.indexes)
    plan_rows(planner, command.dest, command.source, pattern, command.scale, add=True)


def _table(command: Any, planner: Planner) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the positions, sub-matrices and rows of those entries of a multi table that are not (-1, -1)."""
    sub, row = planner.computation.multi_tables[command.table].astype(np.int64).T
    valid = np.flatnonzero(sub >= 0)
    return valid, sub[valid], row[valid]


def _gather(command: cmd.CopyRowsMulti | cmd.AddRowsMulti, planner: Planner) -> RowMoves:
    valid, sub, row = _table(command, planner)
    return RowMoves(np.full(len(valid), command.dest), valid, sub, row)


@rule(cmd.CopyRowsMulti)
def _copy_rows_multi(command: cmd.CopyRowsMulti, planner: Planner) -> None:
    moves = _gather(command, planner)
    missing = np.flatnonzero(planner.computation.multi_tables[command.table][:, 0] < 0)
    plan_zero_rows(planner, command.dest, missing)
    plan_moves(planner, moves, command.scale, add=False)


@rule(cmd.AddRowsMulti)
def _add_rows_multi(command: cmd.AddRowsMulti, planner: Planner) -> None:
    plan_moves(planner, _gather(command, planner), command.scale, add=True)


@rule(cmd.AddToRowsMulti)
def _add_to_rows_multi(command: cmd.AddToRowsMulti, planner: Planner) -> None:
    valid, sub, row = _table(command, planner)
    moves = RowMoves(sub, row, np.full(len(valid), command.source), valid)
    plan_moves(planner, moves, command.scale, add=True)


@rule(cmd.AddRowRanges)
def _add_row_ranges(command: cmd.AddRowRanges, planner: Planner) -> None:
    plan_add_ranges(planner, command.dest, command.source, command.ranges, command.scale)


# ---- the outside world ----


@rule(cmd.AcceptInput)
def _accept_input(command: cmd.AcceptInput, planner: Planner) -> None:
    planner.call("accept", planner.view(command.dest), planner.text(command.name))


@rule(cmd.ProvideOutput)
def _provide_output(command: cmd.ProvideOutput, planner: Planner) -> None:
    planner.call("provide", planner.view(command.source), planner.text(command.name))
