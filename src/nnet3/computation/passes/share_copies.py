"""A matrix that holds nothing but what another holds gives way to it.

The copy is not needed where both can lie in one place: as long as either is read, nobody changes the other.
"""

from __future__ import annotations

from collections import defaultdict

from nnet3.computation.commands import MatrixCopy
from nnet3.computation.computation import NnetComputation
from nnet3.computation.passes.merging import merge_matrices
from nnet3.computation.passes.places import Candidates, Pair


def share_copies(computation: NnetComputation) -> NnetComputation:
    """Read the original instead of a copy, wherever both stay as they are as long as they are read."""
    commands: dict[Pair, list[int]] = defaultdict(list)
    blocks = computation.submatrices
    for number, command in enumerate(computation.commands):
        if isinstance(command, MatrixCopy) and command.scale == 1.0:
            source, dest = blocks[command.source], blocks[command.dest]
            if _alike(computation, source.matrix, dest.matrix):
                row_shift, col_shift = source.row_offset - dest.row_offset, source.col_offset - dest.col_offset
                commands[Pair(source.matrix, dest.matrix, row_shift, col_shift)].append(number)
    return merge_matrices(computation, Candidates(commands, are_copies=True)) if commands else computation


def _alike(computation: NnetComputation, one: int, other: int) -> bool:
    """Whether two matrices have about one size: a small copy is cheaper than keeping a large matrix for longer."""
    sizes = sorted(computation.matrices[m].num_rows * computation.matrices[m].num_cols for m in (one, other))
    return one != other and 2 * sizes[0] >= sizes[1]
