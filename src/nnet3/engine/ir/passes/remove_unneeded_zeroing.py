"""Removal of zeroing whose zeros nobody reads."""

from __future__ import annotations

import numpy as np

from nnet3.engine.ir.analysis import WRITE, analyse
from nnet3.engine.ir.commands import with_values
from nnet3.engine.ir.computation import NnetComputation


def remove_unneeded_zeroing(computation: NnetComputation) -> NnetComputation:
    """`m1 = zeros(9, 4)` becomes `m1 = undefined(9, 4)` if each variable of m1 is first written, or never used."""
    analysis = analyse(computation)
    if not analysis.begins_as_zeros.any():
        return computation
    first = analysis.first_event
    sees_zeros = first[analysis.event_mode[first] != WRITE]
    needs_zeros = np.zeros(len(computation.matrices), dtype=bool)
    needs_zeros[analysis.variables.matrix_of(analysis.event_variable[sees_zeros])] = True
    result = computation.copy()
    for number, matrix in analysis.accesses.allocations:
        command = computation.commands[number]
        if analysis.begins_as_zeros[matrix] and not needs_zeros[matrix]:
            result.commands[number] = with_values(command, zeroed=False)
    return computation if result.commands == computation.commands else result
