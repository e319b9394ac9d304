"""Planner: what rules plan commands with: calls, views of matrices, tables, memory within a command."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from nnet3.engine.ir.commands import Command
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import Distinct
from nnet3.engine.ir.program_tables import SubMatrix
from nnet3.engine.runtime.dtypes import DTYPES
from nnet3.engine.runtime.packing import Span, matrix_spans
from nnet3.engine.runtime.plan import PlannedKernel
from nnet3.engine.runtime.row_blocks import STEP, RowBlocks, RowPattern, find_blocks, range_runs, row_pattern
from nnet3.errors import ExecutionError

_COMPRESSED = "bool"  # the lane of a matrix while it is compressed
_ALWAYS: Span = (-1, 1 << 60)

#: Where addresses count: a lane, a column, a block of memory, -1 for none; and by how much they are higher in each
#: further iteration of a loop.
Space = tuple[int, int, int, int]

#: A call: its opcode, its integers, its number.
Call = tuple[int, Sequence[int], float]

#: Plans a command: `planner.call(...)` for each call, in order; none if it does nothing at run time.
Rule = Callable[[Any, "Planner"], None]


class Planner:
    """Views, tables and scratch memory for the rules. `command` is the one that is being planned."""

    #: What plans a class of commands in this planner, where not the rule of `RULES` does.
    own_rules: ClassVar[Mapping[type[Command], Rule]] = {}
    numbers: ClassVar[type[Any]] = np.int64  # what views and sizes of blocks are made of
    args: ClassVar[type[Any]] = np.int32  # the integers of calls

    def __init__(self, computation: NnetComputation, dtype: str) -> None:
        self.computation, self.dtype, self.command = computation, dtype, 0
        self.views = Distinct[tuple[int, ...]]()  # blocks, and the columns of `Plan.views`
        self.indexes, self.uneven = Distinct[np.ndarray](), Distinct[np.ndarray]()
        self.opcodes, self.texts = dict[str, int](), dict[str, int]()
        self._patterns: dict[bytes, tuple[RowPattern, np.ndarray]] = {}
        self.calls: list[Call] = []
        self.kernels = [
            PlannedKernel(kernel.name, kernel.updatable, kernel.is_frozen) for kernel in computation.kernels
        ]
        self.last_memo_users = _last_memo_users(computation)
        self.lanes = [dtype]  # and that of compressed matrices, if there are some
        self._outside = {computation.submatrices[o.submatrix].matrix: k for k, o in enumerate(computation.outside)}
        self.blocks = list[tuple[int, ...]]()
        self._blocks: dict[int, list[tuple[Span, int]]] = defaultdict(list)
        for key, spans in matrix_spans(computation).items():
            for span in spans:
                self._blocks[key].append((span, len(self.blocks)))
                self.blocks.append((key, *span, *self._size(key), 0))
        self._known_views: dict[int, tuple[int, int, int]] = {}  # and the first and last command with this view
        self._scratch_iteration = 0

    # ---- calls ----

    def call(self, opcode: str, *args: int, number: float = 0.0) -> None:
        """Add a call of the present command."""
        self.calls.append((self.opcodes.setdefault(opcode, len(self.opcodes)), args, number))

    def index(self, rows: np.ndarray) -> int:
        """Returns the number of a table of row numbers; an unknown table is added."""
        table = rows.astype(np.int64)
        return self.indexes.number_of(table, table.tobytes())

    def note_kernel(self, number: int, **facts: Any) -> None:
        """Note the program's use of a kernel, for the checks before linking."""
        self.kernels[number] = PlannedKernel(**{**vars(self.kernels[number]), **facts})  # faster than replace

    def pattern(self, table: int) -> tuple[RowPattern, np.ndarray]:
        """Returns the pattern of an index table and the rows for which it has -1; equal tables are analysed once."""
        rows = self.computation.index_tables[table]
        key = rows.tobytes()
        if key not in self._patterns:
            valid = np.flatnonzero(rows >= 0)
            self._patterns[key] = row_pattern(valid, rows[valid].astype(np.int64)), np.flatnonzero(rows < 0)
        return self._patterns[key]

    def count(self, rows: np.ndarray) -> int:
        """Returns how many rows of an index table there are."""
        return len(rows)

    def blocks_of(self, rows: np.ndarray) -> RowBlocks:
        """Returns the regular blocks of the rows that an index table lacks."""
        return find_blocks(rows[:, np.newaxis])

    def ranges(self, table: int) -> tuple[np.ndarray, RowBlocks]:
        """Returns the ranges of a table that have rows, and their regular runs, see `range_runs`."""
        ranges = self.computation.range_tables[table].astype(np.int64)
        return range_runs(np.arange(len(ranges)), ranges)

    def text(self, text: str) -> int:
        """Returns the number of a name."""
        return self.texts.setdefault(text, len(self.texts))

    # ---- views ----

    def block(self, submatrix: int) -> SubMatrix:
        """Returns the block of a sub-matrix, in a loop that of the first iteration."""
        return self.computation.submatrices[submatrix]

    def view(self, submatrix: int) -> int:
        """Returns the number of the view of a sub-matrix, (rows, columns); sub-matrix 0 is empty, (0, 0)."""
        known = self._known_views.get(submatrix)
        if known is not None and known[1] <= self.command <= known[2]:
            return known[0]
        block = self.block(submatrix)
        space, start, stride = self.address(submatrix)
        iterations = self.computation.iterations.get(submatrix)
        if iterations is None:
            number = self.rows_view(space, start, block.num_rows, stride, block.num_cols)
        else:
            uneven = 1 + self.uneven.number_of(iterations, id(iterations))  # many sub-matrices share one
            origin = start - block.row_offset * stride
            lane, col, memory, moves = space
            assert not moves, "a sub-matrix moves evenly and unevenly"
            number = self.views.number_of((memory, lane, origin, col, 0, 0, block.num_cols, 0, stride, 0, uneven))
        first, last = self._block_now(block.matrix)[0] if block.matrix in self._blocks else _ALWAYS
        self._known_views[submatrix] = number, first, last
        return number

    def address(self, submatrix: int) -> tuple[Space, int, int]:
        """Returns the space of a sub-matrix, the address of its first row there, the distance of rows.

        Addresses count elements from the beginning of a block, and rows in outside memory.
        """
        block = self.block(submatrix)
        if block.matrix in self._outside:
            return (-1 - self._outside[block.matrix], block.col_offset, -1, block.row_step), block.row_offset, 1
        stride = self.computation.matrices[block.matrix].num_cols
        memory = -1 if block.matrix == 0 else self._block_now(block.matrix)[1]
        return (0, 0, memory, block.row_step * stride), block.row_offset * stride + block.col_offset, stride

    def rows_view(
        self, space: Space, start: int, rows: int, stride: int, cols: int, outer: int = 0, outer_stride: int = 0
    ) -> int:
        """Returns a view of rows at equal distances, (rows, cols), or (outer, rows, cols)."""
        lane, col, memory, moves = space
        return self.views.number_of((memory, lane, start, col, outer, rows, cols, outer_stride, stride, moves, 0))

    def block_views(
        self, spaces: Iterable[Space], start: int, stride: int, num_cols: int, blocks: RowBlocks, column: int
    ) -> list[int]:
        """Returns views of blocks, (inner, columns) or (outer, inner, columns), from `start` on.

        `spaces`: the space of each block. `stride`: the distance of rows.
        """
        columns = (
            *(blocks.start[:, column], blocks.outer, blocks.outer_stride[:, column]),
            *(blocks.inner, blocks.inner_stride[:, column]),
        )
        views: list[int] = []
        for space, first, outer, by, rows, inner_stride in zip(
            spaces, *(each.tolist() for each in columns), strict=False
        ):
            stacked = (outer, by * stride) if outer > 1 else ()
            views.append(self.rows_view(space, start + first * stride, rows, inner_stride * stride, num_cols, *stacked))
        return views

    def compressed(self, submatrix: int) -> int:
        """Returns the view of the compressed contents of a whole matrix."""
        block = self.computation.submatrices[submatrix]
        self.lanes[1:] = [_COMPRESSED]
        space = 1, 0, self._block_now(-block.matrix)[1], 0
        return self.rows_view(space, 0, block.num_rows, block.num_cols, block.num_cols)

    # ---- memory within a command ----

    def scratch(self, rows: int, cols: int) -> int:
        """Returns a matrix for this command, valid up to `release_scratch`."""
        space, itemsize = (0, 0, len(self.blocks), 0), DTYPES[self.dtype].itemsize
        self.blocks.append((0, self.command, self.command, rows * cols, itemsize, self._scratch_iteration))
        return self.rows_view(space, 0, rows, cols, cols)

    def release_scratch(self) -> None:
        """Give back the scratch memory taken so far by the present command."""
        self._scratch_iteration += 1

    def stacked(self, view: int, outer: int) -> int:
        """Returns a plain view with its rows in `outer` groups, (outer, rows / outer, columns)."""
        memory, lane, start, col, _, rows, cols, _, stride, moves, _ = self.views[view]
        inner = rows // outer
        return self.rows_view((lane, col, memory, moves), start, inner, stride, cols, outer, inner * stride)

    # ---- memory ----

    def _size(self, key: int) -> tuple[int, int]:
        """Returns the elements of a matrix or its compressed contents, and the bytes of an element."""
        matrix = self.computation.matrices[abs(key)]
        return matrix.num_rows * matrix.num_cols, DTYPES[self.dtype if key > 0 else _COMPRESSED].itemsize

    def _block_now(self, key: int) -> tuple[Span, int]:
        """Returns the span of a matrix that holds the present command, and its block."""
        for span, block in self._blocks.get(key, ()):
            if span[0] <= self.command <= span[1]:
                return span, block
        state = "compressed" if key < 0 else "in memory"
        raise ExecutionError(f"command c{self.command} uses matrix m{abs(key)}, which is not {state} there")


def _last_memo_users(computation: NnetComputation) -> set[int]:
    """Returns the last user of each memo; a command of a Repeat only if the command is the last user in every
    iteration."""
    uses: list[tuple[int, tuple[int, int, int]]] = []  # memos, and when each is used by which command
    loops = {
        number: (body.start, repeat.iterations % STEP, repeat.memo_step)
        for repeat, body in computation.repeats()
        for number in body
    }
    for number, command in enumerate(computation.commands):
        memo = getattr(command, command.schema.uses_memo) if command.schema.uses_memo else -1
        if memo >= 0:
            start, count, step = loops.get(number, (number, 1, 0))
            uses += [(memo + i * step, (start, i, number)) for i in range(count)]
    last_use = dict(sorted(uses))
    return {use[-1] for _, use in uses} - {use[-1] for memo, use in uses if last_use[memo] != use}
