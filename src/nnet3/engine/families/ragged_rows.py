"""Rows of a program by how far before the end of their node they are, and the contents of buffers for one time step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from nnet3.base.index import NO_TIME, IndexTable, N, T
from nnet3.engine.ir.commands import Backprop, Propagate
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Command
from nnet3.engine.ir.program_tables import MatrixInfo

NEVER = 1 << 40  # so many frames are missing where there is no sequence
ALWAYS = NEVER >> 1  # so far before the end are rows that every sequence has
PADDING = -1  # and so far rows that none has


class NotRaggedError(Exception):
    """A program cannot be restricted to shorter sequences; the message says why."""


#: From rows of a node to how far before its end each is, (rows,).
Distances = Callable[[MatrixInfo], np.ndarray]


#: The rows of each step in which the kernel of a node computes, in their order.
StepsOfNodes = Mapping[str, Sequence[IndexTable]]

#: The number of an operand's first row among all indexes, or the number of a version and a distance
#: from its first row; None for operands without samples.
RowStart = int | tuple[int, int] | None


class IndexRows:
    """The indexes of all matrices whose rows have times, each table once; -1 is the first row of timeless matrices."""

    def __init__(self, computation: NnetComputation, distances: Distances, steps: StepsOfNodes) -> None:
        self.base: dict[int, int] = {}
        self.buffers: set[int] = set()
        self._distances = distances
        self._known: dict[bytes, int] = {}
        self._new = [np.zeros((0, 2), np.int64)]
        self._size = 0
        self.of_entries = {
            entry: self._start(MatrixInfo(rows.node, False, rows.outputs))
            for entry, rows in enumerate(computation.precomputed_rows, 1)
        }
        self.of_steps = {
            node: [self._start(MatrixInfo(node, False, rows)) for rows in tables] for node, tables in steps.items()
        }
        for matrix in range(1, len(computation.matrices)):
            info = computation.matrix_info.get(matrix)
            if not computation.has_samples(matrix):
                continue
            if info is None or info.indexes is None:
                raise NotRaggedError(f"the rows of matrix m{matrix} have no indexes")
            if (info.indexes[:, T] == NO_TIME).all():
                self.buffers.add(matrix)
            else:
                self.base[matrix] = self._start(info)
        self.n, self.before_end = np.concatenate(self._new).T.copy()

    def _start(self, info: MatrixInfo) -> int:
        is_padding = info.indexes[:, T] == NO_TIME  # type: ignore[index]
        keys = np.stack([info.indexes[:, N], np.where(is_padding, PADDING, self._distances(info))], axis=1)  # type: ignore[index]
        name = keys.tobytes()
        if name not in self._known:
            self._known[name] = self._size
            self._new.append(keys)
            self._size += len(keys)
        return self._known[name]

    def start_of(self, info: MatrixInfo) -> int:
        """Returns the start of the rows of a node, which may have no matrix."""
        size, start = self._size, self._start(info)
        if self._size > size:
            n, before_end = self._new[-1].T
            self.n, self.before_end = np.append(self.n, n), np.append(self.before_end, before_end)
        return start

    def steps_of_commands(self, commands: Sequence[Command]) -> dict[int, int]:
        """Returns the starts of the rows on which kernels work in the steps of recurrences, by number of the command.

        Backward, steps come in the opposite order; whoever learns of all rows together does so after the last one.
        """
        found: dict[int, int] = {}
        for kind, direction in ((Propagate, 1), (Backprop, -1)):
            of_node: dict[str, dict[int, list[int]]] = {}  # by kernel: a node may have several, for its columns
            for number, command in enumerate(commands):
                if isinstance(command, kind) and command.node in self.of_steps:
                    of_node.setdefault(command.node, {}).setdefault(command.kernel, []).append(number)
            for node, numbers in ((node, each) for node, of_kernel in of_node.items() for each in of_kernel.values()):
                starts = self.of_steps[node][::direction]
                if len(numbers) == len(starts) or (kind is Backprop and len(numbers) == len(starts) + 1):
                    found.update(zip(numbers, starts, strict=False))
        return found

    def same(self, one: int, other: int, count: int) -> bool:
        """True if two ranges of rows have the same indexes, counted from the ends."""
        return one == other or (
            np.array_equal(self.n[one : one + count], self.n[other : other + count])
            and np.array_equal(self.before_end[one : one + count], self.before_end[other : other + count])
        )

    def begin_alike(self, one: int, other: int, count: int) -> bool:
        """True if the existing rows from `one` on are always the first of the existing rows from `other` on."""
        times = self.single_time(one, count), self.single_time(other, count)
        if None in times or not np.array_equal(self.n[one : one + count], self.n[other : other + count]):
            return False
        return times[0] <= times[1]  # type: ignore[operator]

    def times_alike(self, start: int, others: np.ndarray) -> np.ndarray | None:
        """Returns the beginnings of runs of adjacent rows, each run of one time, and the number of rows.

        `others`: the index of the partner of each row from `start` on, -1 for none. None if rows of several
        sequences meet. The existing rows come first in a run, and so do the existing rows' partners.
        """
        own, is_none = np.arange(start, start + len(others)), others < 0
        others = np.where(is_none, own, others)
        if not np.array_equal(self.n[own], self.n[others]):
            return None
        begins = (np.diff(self.n[own]) < 0) | (np.diff(others) != 1) | np.diff(is_none)
        for rows in (own, others):
            begins |= np.diff(self.before_end[rows]) != 0
        return np.concatenate([[0], np.flatnonzero(begins) + 1, [len(others)]])

    def single_time(self, first: int, count: int) -> int | None:
        """Returns how far before the end these rows lie, None if they are of several times or not in order of n."""
        times, n = self.before_end[first : first + count], self.n[first : first + count]
        return int(times[0]) if (times == times[0]).all() and (n[1:] >= n[:-1]).all() else None


class BufferVersions:
    """The contents of step buffers: each write makes a new version, with the times of its users."""

    def __init__(self, computation: NnetComputation, rows: IndexRows) -> None:
        self._computation, self._rows = computation, rows
        blocks = np.array(computation.submatrices, dtype=np.int64).reshape(len(computation.submatrices), -1)
        used = rows.buffers.intersection(blocks[:, 0].tolist())
        buffers = {buffer: blocks[blocks[:, 0] == buffer] for buffer in sorted(used)}
        #: By buffer where its blocks begin and end, as rows and as columns, and the version of each cell between these.
        self._cuts = {
            buffer: [np.unique([own[:, i], own[:, i] + own[:, i + 1]]) for i in (1, 3)]
            for buffer, own in buffers.items()
        }
        self._now = {buffer: np.full([len(cut) - 1 for cut in cuts], -1) for buffer, cuts in self._cuts.items()}
        self._known_cells: dict[int, np.ndarray] = {}
        self._parent: list[int] = []
        self._first: list[int] = []  # the index of row 0 of the buffer, -1 as long as it is not known
        self._size: list[int] = []  # of so many rows
        self.buffers: list[int] = []

    def read(self, number: int) -> RowStart:
        """Returns the start of a sub-matrix that is read or updated."""
        block = self._computation.submatrices[number]
        if block.matrix in self._rows.base:
            return self._rows.base[block.matrix] + block.row_offset
        if block.matrix not in self._now:
            return None
        cells = self._cells(number)
        version = int(cells[0, 0])
        versions = np.unique(cells).tolist() if cells.size > 1 else [version]
        if versions[0] < 0:
            raise NotRaggedError(f"matrix m{block.matrix} is read before it is written")
        for other in versions:
            self._join(version, other)
        return version, block.row_offset

    def write(self, number: int) -> RowStart:
        """Returns the start of a sub-matrix that is overwritten."""
        block = self._computation.submatrices[number]
        if block.matrix not in self._now:
            return self.read(number)
        self._cells(number)[:] = len(self._parent)
        self._parent.append(len(self._parent))
        self._first.append(-1)
        self._size.append(0)
        self.buffers.append(block.matrix)
        return len(self._parent) - 1, block.row_offset

    def _cells(self, number: int) -> np.ndarray:
        """Returns the versions of the cells of a sub-matrix of a buffer, (rows, columns), which may be written to."""
        if number not in self._known_cells:
            buffer, *block = self._computation.submatrices[number][:5]
            cells = [
                slice(*cut.searchsorted([at, at + n]))
                for cut, at, n in zip(self._cuts[buffer], block[::2], block[1::2], strict=True)
            ]
            self._known_cells[number] = self._now[buffer][tuple(cells)]
        return self._known_cells[number]

    def unify(self, one: RowStart, other: RowStart, count: int) -> None:
        """Note that two operands of `count` rows have equal indexes."""
        if one is None or other is None:
            raise NotRaggedError("rows with and without samples meet")
        if isinstance(one, tuple) and isinstance(other, tuple):
            if one[1] != other[1]:
                raise NotRaggedError("rows of two buffers meet at different offsets")
            self._join(one[0], other[0])
        elif isinstance(one, tuple):
            self._settle(one[0], other - one[1], one[1] + count)  # type: ignore[operator]
        elif isinstance(other, tuple):
            self._settle(other[0], one - other[1], other[1] + count)
        elif not self._rows.same(one, other, count):
            raise NotRaggedError("a command that works row by row has operands of different times")

    def start(self, start: RowStart) -> int:
        """Returns the start as a number, once all is known; -1 for operands without samples."""
        if not isinstance(start, tuple):
            return -1 if start is None else start
        root = self._root(start[0])
        first = self._first[root]
        if first < 0 or start[1] >= self._size[root]:
            raise NotRaggedError(f"nothing says which times rows of matrix m{self.buffers[start[0]]} have")
        return first + start[1]

    def known(self, start: RowStart) -> RowStart:
        """Returns the start as a number, if it is known."""
        return self.start(start) if isinstance(start, tuple) and self.is_known(start) else start

    def is_known(self, start: RowStart) -> bool:
        return not isinstance(start, tuple) or self._first[self._root(start[0])] >= 0

    def firsts(self) -> Iterator[tuple[int, int, int]]:
        """Yields buffers, with the index of row 0 at some time, and the number of rows then."""
        for version, buffer in enumerate(self.buffers):
            root = self._root(version)
            if self._first[root] >= 0:
                yield buffer, self._first[root], self._size[root]

    def _root(self, version: int) -> int:
        while self._parent[version] != version:
            self._parent[version] = version = self._parent[self._parent[version]]
        return version

    def _settle(self, version: int, first: int, size: int) -> None:
        root = self._root(version)
        known = self._first[root]
        if first < 0 or (known >= 0 and not self._rows.same(known, first, min(size, self._size[root]))):
            raise NotRaggedError(f"rows of matrix m{self.buffers[root]} are of two times at once")
        if size > self._size[root]:
            self._first[root], self._size[root] = first, size

    def _join(self, one: int, other: int) -> None:
        one, other = self._root(one), self._root(other)
        if one == other:
            return
        first, size = self._first[other], self._size[other]
        self._parent[other] = one
        if first >= 0:
            self._settle(one, first, size)
