"""What is added to zeros can be copied: the first of several terms of a sum becomes a copy."""

from __future__ import annotations

import numpy as np

from nnet3.computation.analysis import Analysis
from nnet3.computation.commands import (
    AddRows,
    AddRowsMulti,
    AllocMatrix,
    Command,
    CopyRows,
    CopyRowsMulti,
    Label,
    MatrixAdd,
    MatrixCopy,
)
from nnet3.computation.computation import NnetComputation


def first_add_to_copy(computation: NnetComputation) -> NnetComputation:
    """`m2 += m1` becomes `m2 = m1` where nothing has been written to m2 since it was allocated as zeros.

    The whole destination must still be zero. A matrix that lives through a loop counts as written.
    """
    commands = computation.commands
    adds = [i for i, command in enumerate(commands) if isinstance(command, (MatrixAdd, AddRows, AddRowsMulti))]
    if not adds:
        return computation
    analysis = Analysis(computation)
    dest = np.array([commands[i].dest for i in adds])  # type: ignore[attr-defined]
    matrix = np.array([computation.submatrices[d].matrix for d in dest])
    alloc = analysis.alloc_command[matrix]
    begins_as_zeros = np.array([a >= 0 and _is_zeroed(commands[a]) for a in alloc])
    is_label = np.array([isinstance(command, Label) for command in commands], dtype=np.int64)
    labels_before = np.cumsum(is_label)
    same_round = labels_before[alloc] == labels_before[adds]
    is_first = analysis.next_write(dest, np.maximum(alloc, 0)) == adds
    changed = np.flatnonzero(begins_as_zeros & same_round & is_first)
    if len(changed) == 0:
        return computation
    result = computation.copy()
    for i in changed:
        result.commands[adds[i]] = _as_copy(commands[adds[i]])
    return result


def _is_zeroed(command: Command) -> bool:
    return isinstance(command, AllocMatrix) and command.zeroed


def _as_copy(command: Command) -> Command:
    """The command that does the same to a destination of zeros."""
    if isinstance(command, MatrixAdd):
        return MatrixCopy(command.dest, command.source, command.scale)
    if isinstance(command, AddRows):
        return CopyRows(command.dest, command.source, command.indexes, command.scale)
    assert isinstance(command, AddRowsMulti)
    return CopyRowsMulti(command.dest, command.table, command.scale)
