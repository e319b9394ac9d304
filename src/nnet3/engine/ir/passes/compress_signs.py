"""Compression of values whose signs alone are needed by the backward pass.

A rectified linear unit's output is needed again, going backward, but only for its signs. Between the two
passes the output has no readers, and memory is scarcest.
"""

from __future__ import annotations

import numpy as np

from nnet3.engine.ir.analysis import Analysis, analyse
from nnet3.engine.ir.commands import Backprop, CompressMatrix, DecompressMatrix, SegmentMarker
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.passes.recurrent_steps import Rewriting, step_of

_FEWEST_COLUMNS = 32  # below that two more commands cost more than the memory is worth; the same for all lengths


def compress_signs(computation: NnetComputation) -> NnetComputation:
    """Compress, across the marker, each matrix of which only the signs are read after the marker.

    A computation with several markers stays as it is.
    """
    commands = computation.commands
    if not any(info.backprop_needs_sign_only for info in computation.kernels):
        return computation
    markers = [number for number, command in enumerate(commands) if isinstance(command, SegmentMarker)]
    if len(markers) != 1:
        return computation
    analysis = analyse(computation)
    widths = [matrix.num_cols for matrix in computation.matrices]
    chosen = [each for each in _candidates(analysis, markers[0]) if widths[each[0]] >= _FEWEST_COLUMNS]
    if not chosen:
        return computation
    rewriting = Rewriting(computation.copy())
    for matrix, last, first in chosen:
        whole = rewriting.computation.whole_matrix(matrix)
        rewriting.after[last].append(CompressMatrix(whole))
        rewriting.before[first].append(DecompressMatrix(whole))
    return rewriting.finish()


def _candidates(analysis: Analysis, marker: int) -> list[tuple[int, int, int]]:
    """Returns (matrix, last access before the marker, first after it) where all accesses after it look at signs."""
    computation, command, matrix = analysis.computation, analysis.accesses.command, analysis.matrix_of_access
    is_after = command > marker
    excluded = np.zeros(len(computation.matrices), bool)
    excluded[[0, *computation.outside_by_matrix(), *computation.exchanged_matrices()]] = True
    signs = np.full(analysis.num_commands, -1)  # the sub-matrix of which a command looks at the signs
    for number in analysis.accesses.numbers_of_class.get(Backprop, ()):
        each = step_of(computation, number, Backprop)
        if computation.kernels[each.kernel].backprop_needs_sign_only:
            signs[number] = each.output
    excluded[matrix[is_after & (analysis.accesses.submatrix != signs[command])]] = True
    last_before = np.full(len(computation.matrices), -1)
    np.maximum.at(last_before, matrix[~is_after], command[~is_after])
    first_after = np.full(len(computation.matrices), analysis.num_commands)
    np.minimum.at(first_after, matrix[is_after], command[is_after])
    chosen = np.flatnonzero(~excluded & (last_before >= 0) & (first_after < analysis.num_commands))
    return [(int(m), int(last_before[m]), int(first_after[m])) for m in chosen]
