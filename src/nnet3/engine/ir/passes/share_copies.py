"""Copy elimination: a matrix that only holds a copy gives way to the original.

A copy is superfluous where copy and original can share storage: no command changes it while either is read.
Then every read finds the value it found before, in the program as it is.

In a program restricted to shorter sequences, a copy between times does more than move rows: a row without a
source becomes zero.

    before                               after, for two sequences, and at t = 4 for one of them
    m2 = m1                              m2(0, :) = m1(0, :), m2(1, :) = 0
    plus.Propagate((m2, x(4)), &m3)      plus.Propagate((m2, x(4)), &m3)

Where m1 holds rows of t = 5, the row of the sequence ending at t = 4 is x(4) + 0. Only the copy says so. Without it
m2 would have no row for the sequence. So the restriction of programs (`driver.ragged`) demands that every kernel
works on the rows of its node, known from the schedule, and that operands have the rows of the node; otherwise it takes
the program without this pass and `work_in_place`.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache, partial

import numpy as np

from nnet3.base.index import NO_TIME, T
from nnet3.engine.ir.commands import MatrixCopy
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.passes.merging import Candidates, Pair, merge_matrices

_SEVERAL = 6  # frames: matrices that have them are compared by what they have for each frame


def share_copies(computation: NnetComputation) -> NnetComputation:
    """Let copies share the storage of their originals, where neither changes while copy or original is read."""
    commands: dict[Pair, list[int]] = defaultdict(list)
    blocks = computation.submatrices
    sizes = [matrix.num_rows * matrix.num_cols for matrix in computation.matrices]
    frames = cache(partial(_num_frames, computation))
    for number, command in enumerate(computation.commands):
        if isinstance(command, MatrixCopy) and command.scale == 1.0:
            source, dest = blocks[command.source], blocks[command.dest]
            one, other = sizes[source.matrix], sizes[dest.matrix]
            if min(frames(source.matrix), frames(dest.matrix)) >= _SEVERAL:  # then the same for all lengths
                one, other = one * frames(dest.matrix), other * frames(source.matrix)
            # A small copy is cheaper than keeping a large matrix for longer.
            if source.matrix != dest.matrix and one <= 2 * other and other <= 2 * one:
                row_shift, col_shift = source.row_offset - dest.row_offset, source.col_offset - dest.col_offset
                commands[Pair(source.matrix, dest.matrix, row_shift, col_shift)].append(number)
    return merge_matrices(computation, Candidates(commands, are_copies=True)) if commands else computation


def _num_frames(computation: NnetComputation, matrix: int) -> int:
    """Returns the number of frames from the first to the last of a matrix; 1 for a matrix without times."""
    info = computation.matrix_info.get(matrix)
    if info is None or info.indexes is None:
        return 1
    times = info.indexes[:, T]
    times = times[times != NO_TIME]
    return int(np.ptp(times)) + 1 if len(times) else 1
