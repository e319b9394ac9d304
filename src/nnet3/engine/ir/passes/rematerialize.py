"""Rematerialization: values are computed again for the backward pass instead of kept.

    c3: m5 = m4                               c3: m5 = m4
    c4: m5 += 0.66 * m2                       c4: m5 += 0.66 * m2
        ...                                       ...  m5 ends after its last use forward
    c9: affine.Backprop(m5, ...)              m8 = m4; m8 += 0.66 * m2
                                              c9: affine.Backprop(m8, ...)

A matrix is a candidate if all its forward writers can be repeated (copies, sums, kernels with the promise
`repeats_forward`), with operands existing when the backward pass wants the matrix, or made again too. So a
chain of sums is made again from a kept matrix. Candidates are decided one by one, the largest first, by the peak of
memory: a candidate is chosen for lowering the peak by enough for the bytes moved once more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from nnet3.base.index import NO_TIME, N, T, distinct
from nnet3.engine.ir.analysis import READ, UPDATE, WRITE, Analysis, analyse
from nnet3.engine.ir.commands import Command, Propagate, PropagateAgain, Role, SegmentMarker, substitute
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Life
from nnet3.engine.ir.passes.recurrent_steps import Rewriting
from nnet3.engine.ir.variables import matrix_sizes

_MOST_MOVED = 24  # times as many bytes may be moved again as the peak is lower; a chain of three moves 9
_PARTS = 12  # rates of frames are multiples of 1 / _PARTS
_CHANGES = {Life.BEGINS: 4, Life.ENDS: -4, Life.COMPRESSES: -3, Life.DECOMPRESSES: 3}  # of quarters of a matrix


class _Value(NamedTuple):
    """A matrix to make again instead of keeping between two accesses: the commands for making the matrix."""

    matrix: int
    writers: tuple[int, ...]
    sources: tuple[tuple[int, int], ...]  # sub-matrices of other matrices, and the command that reads each
    last_forward: int
    first_backward: int


def rematerialize(computation: NnetComputation) -> NnetComputation:
    """Make values again for the backward pass where recomputing lowers the peak of memory.

    A computation with several markers stays as it is.
    """
    analysis = analyse(computation)
    markers = analysis.accesses.numbers_of_class.get(SegmentMarker, [])
    values = _values(analysis, markers[0]) if len(markers) == 1 else {}
    chosen = _Choice(analysis, values).made() if values else {}
    return _rewritten(analysis, values, chosen, markers[0]) if chosen else computation


# ---- candidates ----


def _values(analysis: Analysis, marker: int) -> dict[int, _Value]:
    """Returns the candidates, by matrix."""
    computation, accesses = analysis.computation, analysis.accesses
    commands, is_late = computation.commands, accesses.command > marker
    is_used = np.ones(len(computation.matrices), dtype=bool)
    is_used[[*_excluded(analysis)]] = False
    for half in (is_late, ~is_late):
        is_used &= np.bincount(analysis.matrix_of_access[half], minlength=len(is_used)) > 0
    of_matrix: dict[int, list[tuple[int, int]]] = defaultdict(list)
    of_command: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    columns = (accesses.command, analysis.matrix_of_access, accesses.submatrix, accesses.mode)
    chosen = is_used[analysis.matrix_of_access]
    for number, matrix, _, mode in zip(*(column[chosen].tolist() for column in columns), strict=True):
        of_matrix[matrix].append((number, mode))
    writing = ~is_late & np.isin(accesses.command, accesses.command[chosen & (accesses.mode & WRITE != 0)])
    for number, matrix, submatrix, mode in zip(*(column[writing].tolist() for column in columns), strict=True):
        of_command[number].append((matrix, submatrix, mode))
    found = {}
    for matrix, events in of_matrix.items():
        before, after = ([each for each in events if (each[0] > marker) is late] for late in (False, True))
        writers = dict.fromkeys(number for number, mode in before if mode & WRITE)
        operands = [(m, s, mode, number) for number in writers for m, s, mode in of_command[number]]
        if (
            writers
            and any(mode & READ for number, mode in after if number == after[0][0])
            and all(_can_be_repeated(computation, commands[number]) for number in writers)
            and all(m == matrix for m, _, mode, _ in operands if mode & WRITE)
        ):
            sources = tuple([(s, number) for m, s, _, number in operands if m != matrix])
            found[matrix] = _Value(matrix, tuple(writers), sources, before[-1][0], after[0][0])
    return found


def _can_be_repeated(computation: NnetComputation, command: Command) -> bool:
    if isinstance(command, Propagate):
        kernel = computation.kernels[command.kernel]
        return kernel.repeats_forward and (command.memo >= 0 or not kernel.uses_memo)
    return command.role is Role.COMPUTE and not command.schema.reference_fields


def _excluded(analysis: Analysis) -> set[int]:
    """Returns the matrices with fixed sub-matrices, or without simple lives."""
    computation, lives = analysis.computation, analysis.accesses.lives
    submatrices = [number for table in computation.multi_tables for number in np.unique(table[:, 0]).tolist()]
    excluded = computation.exchanged_matrices()
    excluded |= {computation.submatrices[number].matrix for number in submatrices if number >= 0}
    excluded |= {matrix for life in (Life.COMPRESSES, Life.DECOMPRESSES) for _, matrix in lives[life]}
    begun, ended = (
        np.bincount([matrix for _, matrix in lives[life]], minlength=len(computation.matrices))
        for life in (Life.BEGINS, Life.ENDS)
    )
    return excluded | set(np.flatnonzero((begun != 1) | (ended != 1)).tolist())


# ---- the choice ----


class _Choice:
    """Chooses among candidates by the peak in bytes of a frame in the long run, equal for all lengths."""

    def __init__(self, analysis: Analysis, values: Mapping[int, _Value]) -> None:
        self._analysis, self._values = analysis, values
        last = analysis.last_access + 1
        self._ends = np.where(analysis.is_provided | (analysis.dealloc_command < 0), analysis.dealloc_command, last)
        self._compressed = {matrix for _, matrix in analysis.accesses.lives[Life.COMPRESSES]}
        self._outside = analysis.computation.outside_by_matrix()
        self._rewritten = self._writes_after_reading()
        self._in_order = sorted(values.values(), key=lambda value: value.writers[-1])
        rows, columns = matrix_sizes(analysis.computation).T
        self._rates = _rows_per_frame(analysis.computation)
        self._weights, self._sizes = self._rates * columns, rows * columns
        moved = np.zeros(analysis.num_commands, dtype=np.int64)
        width = np.diff(analysis.table[analysis.accesses.submatrix, 3:])[:, 0]
        passes = np.where(analysis.accesses.mode == UPDATE, 2, 1)
        np.add.at(moved, analysis.accesses.command, passes * width * self._rates[analysis.matrix_of_access])
        self._moved = {matrix: 4 * int(moved[[*value.writers]].sum()) for matrix, value in values.items()}

    def made(self) -> dict[int, int]:
        """Returns the command before which each chosen matrix is made again; none if the peak is not lowered."""
        chosen, is_new = dict[int, int](), True
        kept = self._changes(self._weights)
        peak = self._peak(kept, chosen, self._weights)
        order = sorted(self._values, key=lambda matrix: (-self._weights[matrix], matrix))
        while is_new:
            is_new = False
            for matrix in order:
                tried = {} if matrix in chosen else self._positions({matrix, *chosen})
                lower = self._peak(kept, tried, self._weights) if tried else peak
                if lower < peak and self._moved[matrix] <= _MOST_MOVED * (peak - lower):
                    chosen, peak, is_new = tried, lower, True
        kept = self._changes(self._sizes)
        is_lower = self._peak(kept, chosen, self._sizes) < self._peak(kept, {}, self._sizes)
        return chosen if is_lower else {}

    def _positions(self, chosen: Collection[int]) -> dict[int, int]:
        """Returns the command before which each matrix is made again, for itself or another; none if one cannot be."""
        positions = {matrix: self._values[matrix].first_backward for matrix in chosen}
        for value in reversed(self._in_order):
            if value.matrix not in chosen:
                continue
            position = positions[value.matrix]
            for submatrix, reader in value.sources:
                source = int(self._analysis.table[submatrix, 0])
                if self._ends[source] <= position and source not in self._outside:
                    return {}
                if source in chosen:
                    if self._values[source].writers[-1] > value.writers[-1]:  # other columns were written later
                        return {}
                    positions[source] = min(positions[source], position)
                elif source in self._compressed:
                    return {}
                if self._rewritten[submatrix, reader] < position:
                    return {}
        return positions

    def _writes_after_reading(self) -> dict[tuple[int, int], int]:
        """Returns the first command that writes to each source after it was read."""
        sources = list(dict.fromkeys(source for value in self._values.values() for source in value.sources))
        submatrices, readers = np.array(sources, dtype=np.int64).reshape(-1, 2).T
        return dict(zip(sources, self._analysis.next_access(submatrices, readers + 1, WRITE).tolist(), strict=True))

    def _changes(self, sizes: np.ndarray) -> np.ndarray:
        """Returns the additional memory kept from each command on, in quarters of `sizes`, after `move_sizing`."""
        changes = np.zeros(self._analysis.num_commands + 1, dtype=np.int64)
        moved = {Life.BEGINS: self._analysis.first_access, Life.ENDS: self._ends}
        sizes = sizes * (self._analysis.last_access >= 0)
        for life, factor in _CHANGES.items():
            numbers, matrices = np.array(self._analysis.accesses.lives[life], dtype=np.int64).reshape(-1, 2).T
            np.add.at(changes, moved[life][matrices] if life in moved else numbers, factor * sizes[matrices])
        return changes

    def _peak(self, kept: np.ndarray, positions: Mapping[int, int], sizes: np.ndarray) -> int:
        """Returns the largest amount alive at once, in quarters."""
        changes = kept.copy()
        for matrix, position in positions.items():
            changes[self._values[matrix].last_forward + 1] -= 4 * sizes[matrix]
            changes[position] += 4 * sizes[matrix]
        return int(changes.cumsum().max())


def _rows_per_frame(computation: NnetComputation) -> np.ndarray:
    """Returns the rows of each matrix for a frame, in twelfths; without time for a sequence, else all rows."""
    known: dict[int, tuple[int, int]] = {}
    found = np.zeros((len(computation.matrices), 3), dtype=np.int64)
    found[:, 2] = [matrix.num_rows for matrix in computation.matrices]
    for matrix, info in computation.matrix_info.items():
        if info.indexes is not None and len(info.indexes):
            if id(info.indexes) not in known:
                known[id(info.indexes)] = _rates(info.indexes)
            found[matrix, :2] = known[id(info.indexes)]
    return found[:, found.any(axis=0).argmax()]


def _rates(indexes: np.ndarray) -> tuple[int, int]:
    """Returns the rows for a frame, and those of all time, in twelfths, of the first sequence, which stands for all."""
    own = indexes[indexes[:, N] == indexes[0, N], T]
    own = own[own != NO_TIME]
    times = distinct(own)
    rate = round(_PARTS * (len(times) - 1) / (times[-1] - times[0])) if len(times) > 1 else 0
    return rate * len(own) // max(len(times), 1), _PARTS * len(own)


# ---- the program ----


def _rewritten(
    analysis: Analysis, values: Mapping[int, _Value], positions: Mapping[int, int], marker: int
) -> NnetComputation:
    computation, result = analysis.computation, analysis.computation.copy()
    again: dict[int, int] = {}  # the matrix that takes the place of each in the backward pass
    for matrix in sorted(positions):
        new = result.new_matrix(*computation.matrices[matrix], computation.matrix_info.get(matrix))
        again[matrix] = result.submatrices[new].matrix
    others = [
        result.find_or_add(block._replace(matrix=again[block.matrix])) if block.matrix in again else number
        for number, block in enumerate(computation.submatrices)
    ]
    rewriting, later = Rewriting(result), range(marker + 1, analysis.num_commands)
    rewriting.instead = {number: [substitute(computation.commands[number], others)] for number in later}
    for value in sorted((values[matrix] for matrix in positions), key=lambda value: value.writers[-1]):
        begin, end = (
            computation.commands[each[value.matrix]] for each in (analysis.alloc_command, analysis.dealloc_command)
        )
        made = (begin, *(_again(computation.commands[number]) for number in value.writers))
        rewriting.before[positions[value.matrix]] += [substitute(command, others) for command in made]
        rewriting.after[value.last_forward].append(end)
    return rewriting.finish()


def _again(command: Command) -> Command:
    if not isinstance(command, Propagate):
        return command
    return PropagateAgain(
        command.kernel, command.node, command.inputs, command.output, command.precomputed, command.memo
    )
