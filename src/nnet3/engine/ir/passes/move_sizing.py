"""Shorten live ranges, for matrices to share memory."""

from __future__ import annotations

import numpy as np

from nnet3.engine.ir.analysis import analyse
from nnet3.engine.ir.computation import NnetComputation

_BEFORE, _AT, _AFTER = 0, 1, 2  # a command's order within the position it moves to


def move_sizing(computation: NnetComputation) -> NnetComputation:
    """Move each allocation to just before the first access, each deallocation to just after the last access.

    A matrix handed to the user is not deallocated earlier than before the pass. An unused matrix is never allocated.
    """
    analysis = analyse(computation)
    position = np.arange(analysis.num_commands)
    iteration = np.full(analysis.num_commands, _AT)
    kept = np.ones(analysis.num_commands, dtype=bool)
    unused = analysis.last_access == -1
    for number, matrix in analysis.accesses.allocations:
        position[number], iteration[number] = analysis.first_access[matrix], _BEFORE
        kept[number] = not unused[matrix]
    for number, matrix in analysis.accesses.deallocations:
        kept[number] = not unused[matrix]
        if not analysis.is_provided[matrix]:
            position[number], iteration[number] = analysis.last_access[matrix], _AFTER
    order = np.lexsort((np.arange(analysis.num_commands), iteration, position))
    order = order[kept[order]]
    if len(order) == analysis.num_commands and (order == np.arange(analysis.num_commands)).all():
        return computation
    result = computation.copy()
    result.commands = [computation.commands[number] for number in order]
    return result
