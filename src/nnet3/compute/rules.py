"""How each command runs: one small function a command, which binds it to tensors and kernels once.

To add a command: a class in `nnet3.computation.commands`, a line in the printer, a rule here, and their tests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from nnet3.computation import commands as cmd
from nnet3.compute.binder import Binder, BoundCall
from nnet3.compute.row_moves import RowMoves, bind_add, bind_copy, bind_zero, scaled_copy
from nnet3.compute.row_ranges import bind_add_ranges
from nnet3.errors import ExecutionError

#: Binds a command: the calls that carry it out, in order; none if it does nothing at run time.
Rule = Callable[[Any, Binder], list[BoundCall]]

RULES: dict[type[cmd.Command], Rule] = {}


def rule(command: type[cmd.Command]) -> Callable[[Rule], Rule]:
    """Register the rule of a command class."""

    def register(function: Rule) -> Rule:
        RULES[command] = function
        return function

    return register


def bind(command: cmd.Command, binder: Binder) -> list[BoundCall]:
    """The calls that carry out a command. Raises ExecutionError for a command class without a rule."""
    if type(command) not in RULES:
        known = ", ".join(sorted(known.__name__ for known in RULES))
        raise ExecutionError(
            f"command c{binder.command} is a {type(command).__name__}, which has no rule in nnet3.compute.rules; "
            f"there are rules for: {known}"
        )
    return RULES[type(command)](command, binder)


# ---- memory ----


@rule(cmd.AllocMatrix)
def _alloc_matrix(command: cmd.AllocMatrix, binder: Binder) -> list[BoundCall]:
    if command.zeroed:
        return [binder.view(command.matrix).zero_]
    return [partial(binder.view(command.matrix).fill_, float("nan"))] if binder.fill_undefined else []


def _nothing(command: cmd.Command, binder: Binder) -> list[BoundCall]:
    return []


# The memory plan and the division into segments have dealt with these.
for _command in (cmd.DeallocMatrix, cmd.NoOp, cmd.SegmentMarker, cmd.Label, cmd.Goto):
    RULES[_command] = _nothing


@rule(cmd.SwapMatrix)
def _swap_matrix(command: cmd.SwapMatrix, binder: Binder) -> list[BoundCall]:
    # Views are bound once, so contents have to move.
    first, second = binder.view(command.first), binder.view(command.second)
    scratch = binder.scratch(*first.shape)
    return [partial(scratch.copy_, first), partial(first.copy_, second), partial(second.copy_, scratch)]


@rule(cmd.SetConst)
def _set_const(command: cmd.SetConst, binder: Binder) -> list[BoundCall]:
    return [partial(binder.view(command.dest).fill_, command.value)]


@rule(cmd.CompressMatrix)
def _compress_matrix(command: cmd.CompressMatrix, binder: Binder) -> list[BoundCall]:
    matrix, compressed = binder.view(command.matrix), binder.compressed(command.matrix)
    if compressed.dtype == torch.bool:
        return [partial(torch.gt, matrix, 0.0, out=compressed)]
    return [partial(compressed.copy_, matrix)]


@rule(cmd.DecompressMatrix)
def _decompress_matrix(command: cmd.DecompressMatrix, binder: Binder) -> list[BoundCall]:
    return [partial(binder.view(command.matrix).copy_, binder.compressed(command.matrix))]


# ---- kernels ----


@rule(cmd.Propagate)
def _propagate(command: cmd.Propagate, binder: Binder) -> list[BoundCall]:
    info = binder.computation.kernels[command.kernel]
    kernel, memos, number = binder.kernels.find(info), binder.state.memos, command.memo
    inputs, output = [binder.view(s) for s in command.inputs], binder.view(command.output)
    binder.kernels.check_width(info, "output", output.shape[1])
    if len(inputs) == 1:
        binder.kernels.check_width(info, "input", inputs[0].shape[1])
    forward = partial(kernel.run_forward, inputs, output, binder.precomputed(command.precomputed, kernel))
    store_stats = binder.kernels.for_statistics(info).run_stats if command.store_stats else None
    if store_stats is None and number < 0:
        return [forward]

    def propagate() -> None:
        memo = forward()
        if store_stats is not None:
            store_stats(inputs, output, memo)
        if number >= 0:
            memos[number] = memo

    return [propagate]


@rule(cmd.Backprop)
def _backprop(command: cmd.Backprop, binder: Binder) -> list[BoundCall]:
    info = binder.computation.kernels[command.kernel]
    kernel, memos, number = binder.kernels.find(info), binder.state.memos, command.memo
    to_update = None
    if command.update:
        to_update = binder.kernels.for_update(info, binder.computation.need_model_derivative)
    inputs, output = [binder.view(s) for s in command.inputs], binder.view(command.output)
    output_deriv = binder.view(command.output_deriv)
    input_derivs = [binder.view(s) if s != 0 else None for s in command.input_derivs]
    indexes = binder.precomputed(command.precomputed, kernel)
    if number < 0:
        memo = None
        return [partial(kernel.run_backward, inputs, output, output_deriv, memo, to_update, input_derivs, indexes)]
    is_last_use = binder.last_memo_use.get(number) == binder.command

    def backprop() -> None:
        memo = memos[number]
        if is_last_use:
            memos[number] = None
        kernel.run_backward(inputs, output, output_deriv, memo, to_update, input_derivs, indexes)

    return [backprop]


# ---- copying and adding ----


@rule(cmd.MatrixCopy)
def _matrix_copy(command: cmd.MatrixCopy, binder: Binder) -> list[BoundCall]:
    return [scaled_copy(binder.view(command.dest), binder.view(command.source), command.scale)]


@rule(cmd.MatrixAdd)
def _matrix_add(command: cmd.MatrixAdd, binder: Binder) -> list[BoundCall]:
    return [partial(binder.view(command.dest).add_, binder.view(command.source), alpha=command.scale)]


def _gather(dest: int, sources: np.ndarray, rows: np.ndarray) -> RowMoves:
    """The moves into `dest` row by row; sources of -1 are left out."""
    valid = np.flatnonzero(sources >= 0)
    return RowMoves(np.full(len(valid), dest), valid, sources[valid], rows[valid])


def _scatter(source: int, dests: np.ndarray, rows: np.ndarray) -> RowMoves:
    valid = np.flatnonzero(dests >= 0)
    return RowMoves(dests[valid], rows[valid], np.full(len(valid), source), valid)


def _gather_rows(command: cmd.CopyRows | cmd.AddRows, binder: Binder) -> RowMoves:
    rows = binder.computation.index_tables[command.indexes].astype(np.int64)
    return _gather(command.dest, np.where(rows >= 0, command.source, -1), rows)


def _table(command: Any, binder: Binder) -> tuple[np.ndarray, np.ndarray]:
    sub, row = binder.computation.multi_tables[command.table].astype(np.int64).T
    return sub, row


def _copy_and_zero(binder: Binder, dest: int, moves: RowMoves, scale: float) -> list[BoundCall]:
    all_rows = np.arange(binder.computation.submatrices[dest].num_rows)
    missing = np.setdiff1d(all_rows, moves.dest_row, assume_unique=True)
    return bind_zero(binder, dest, missing) + bind_copy(binder, moves, scale)


@rule(cmd.CopyRows)
def _copy_rows(command: cmd.CopyRows, binder: Binder) -> list[BoundCall]:
    return _copy_and_zero(binder, command.dest, _gather_rows(command, binder), command.scale)


@rule(cmd.AddRows)
def _add_rows(command: cmd.AddRows, binder: Binder) -> list[BoundCall]:
    return bind_add(binder, _gather_rows(command, binder), command.scale)


@rule(cmd.CopyRowsMulti)
def _copy_rows_multi(command: cmd.CopyRowsMulti, binder: Binder) -> list[BoundCall]:
    return _copy_and_zero(binder, command.dest, _gather(command.dest, *_table(command, binder)), command.scale)


@rule(cmd.AddRowsMulti)
def _add_rows_multi(command: cmd.AddRowsMulti, binder: Binder) -> list[BoundCall]:
    return bind_add(binder, _gather(command.dest, *_table(command, binder)), command.scale)


@rule(cmd.CopyToRowsMulti)
def _copy_to_rows_multi(command: cmd.CopyToRowsMulti, binder: Binder) -> list[BoundCall]:
    return bind_copy(binder, _scatter(command.source, *_table(command, binder)), command.scale)


@rule(cmd.AddToRowsMulti)
def _add_to_rows_multi(command: cmd.AddToRowsMulti, binder: Binder) -> list[BoundCall]:
    return bind_add(binder, _scatter(command.source, *_table(command, binder)), command.scale)


@rule(cmd.AddRowRanges)
def _add_row_ranges(command: cmd.AddRowRanges, binder: Binder) -> list[BoundCall]:
    ranges = binder.computation.range_tables[command.ranges]
    return bind_add_ranges(binder, command.dest, command.source, ranges, command.scale)


# ---- the outside world ----


@rule(cmd.AcceptInput)
def _accept_input(command: cmd.AcceptInput, binder: Binder) -> list[BoundCall]:
    dest, accepted = binder.view(command.dest), binder.state.accepted
    return [lambda: dest.copy_(accepted[command.name])]


@rule(cmd.ProvideOutput)
def _provide_output(command: cmd.ProvideOutput, binder: Binder) -> list[BoundCall]:
    source, provided = binder.view(command.source), binder.state.provided

    def provide_output() -> None:
        provided[command.name] = source.clone()

    return [provide_output]
