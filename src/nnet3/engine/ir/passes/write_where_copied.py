"""Copy forwarding: a kernel writes where a copy would put its output.

Steps of a recurrence share a buffer, and each step's copy takes the output to the matrix of all steps:

    before                                after, for each step
    plus.Propagate((m1, m2), &m3)         plus.Propagate((m1, m2), &m4(0:15, 0:7))
    m4(0:15, 0:7) = m3

`share_copies` cannot help: the buffer would have to lie in many places. Here nothing but such copies may read it.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache

import numpy as np

from nnet3.engine.ir.analysis import READ, WRITE, Analysis, analyse
from nnet3.engine.ir.commands import MatrixCopy, Propagate
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Life, with_values
from nnet3.engine.ir.passes.recurrent_steps import step_of

_FEWEST = 2  # copies of a buffer: `share_copies` takes care of a single one


def write_where_copied(computation: NnetComputation) -> NnetComputation:
    """Let kernels write the destinations of copies, if nobody else reads what is copied."""
    blocks = computation.submatrices
    buffers = {
        blocks[command.source].matrix
        for command in computation.commands
        if isinstance(command, MatrixCopy) and command.scale == 1.0
    }
    if not buffers:
        return computation
    analysis = _Accesses(analyse(computation))
    found = {maker: copy for buffer in sorted(buffers) for maker, copy in analysis.makers_and_copies(buffer)}
    if not found:
        return computation
    result, dropped = computation.copy(), set(found.values())
    written = {maker: step_of(computation, copy, MatrixCopy).dest for maker, copy in found.items()}
    result.commands = [
        with_values(command, output=written[number]) if number in written else command
        for number, command in enumerate(computation.commands)
        if number not in dropped
    ]
    return result


class _Accesses:
    """The accesses to each matrix, in the order of commands."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, computation = analysis, analysis.computation
        self._order = np.argsort(analysis.matrix_of_access, kind="stable")
        bounds = np.arange(len(computation.matrices) + 1)
        self._starts = np.searchsorted(analysis.matrix_of_access[self._order], bounds)
        compressed = [matrix for _, matrix in analysis.accesses.lives[Life.COMPRESSES]]
        self._users = cache(lambda matrix: analysis.accesses.command[self._of(matrix)].tolist())
        self._fixed = {0, *computation.outside_by_matrix(), *compressed, *computation.exchanged_matrices()}

    def makers_and_copies(self, buffer: int) -> list[tuple[int, int]]:
        """Returns the kernels' commands that write a buffer, each with the copy behind it; none if others use it."""
        accesses, table = self.analysis.accesses, self.analysis.table
        own = self._of(buffer)
        writes, reads = own[0::2], own[1::2]
        if len(writes) != len(reads) or len(reads) < _FEWEST or buffer in self._fixed:
            return []
        if (accesses.mode[writes] != WRITE).any() or (accesses.mode[reads] != READ).any():
            return []
        if (table[accesses.submatrix[writes]] != table[accesses.submatrix[reads]]).any():
            return []
        pairs = list(zip(accesses.command[writes].tolist(), accesses.command[reads].tolist(), strict=True))
        return pairs if all(self._may_write(maker, copy) for maker, copy in pairs) else []

    def _of(self, matrix: int) -> np.ndarray:
        return self._order[self._starts[matrix] : self._starts[matrix + 1]]

    def _may_write(self, maker: int, copy: int) -> bool:
        """True if nothing uses the destination of a copy from the maker on, until it is copied to."""
        computation = self.analysis.computation
        one, other = computation.commands[maker], computation.commands[copy]
        if not isinstance(one, Propagate) or not isinstance(other, MatrixCopy) or other.scale != 1.0:
            return False
        dest = computation.submatrices[other.dest].matrix
        users = self._users(dest)
        is_used = bisect_left(users, maker) < bisect_left(users, copy)
        begins_before = self.analysis.alloc_command[dest] < maker
        return bool(begins_before) and not is_used and dest not in self._fixed
