"""Do not zero a matrix whose zeros nobody sees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnet3.computation.analysis import WRITE, analyse
from nnet3.computation.commands import AllocMatrix
from nnet3.computation.computation import NnetComputation


def remove_unneeded_zeroing(computation: NnetComputation) -> NnetComputation:
    """`m1 = zeros(9, 4)` becomes `m1 = undefined(9, 4)` if each variable of m1 is first written, or never used.

    A jump goes back to commands that have run before, so the first access in the list is the first in time too.
    """
    if not any(isinstance(command, AllocMatrix) and command.zeroed for command in computation.commands):
        return computation
    analysis = analyse(computation)
    first = analysis.first_event
    sees_zeros = first[analysis.event_kind[first] != WRITE]
    needs_zeros = np.zeros(len(computation.matrices), dtype=bool)
    needs_zeros[analysis.variables.matrix_of(analysis.event_variable[sees_zeros])] = True
    result = computation.copy()
    for number, matrix in analysis.accesses.allocations:
        command = computation.commands[number]
        assert isinstance(command, AllocMatrix)
        if command.zeroed and not needs_zeros[matrix]:
            result.commands[number] = replace(command, zeroed=False)
    return computation if result.commands == computation.commands else result
