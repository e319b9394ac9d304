"""Writes random commands, and keeps track of which elements are defined."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random

import numpy as np

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from tests.ir.programs import index_table, multi_table, range_table
from tests.ir.toy_kernels import (
    AFFINE,
    CENTRE,
    DIM,
    KERNELS,
    OTHER_AFFINE,
    PRODUCT,
    SCALED,
    SIGMOID,
    SUM,
    WIDE,
    WIDE_SLICE,
)


class CommandWriter:
    """Appends commands to a computation; blocks are sub-matrices with DIM columns."""

    def __init__(self, random: Random, computation: NnetComputation):
        self.random, self.c = random, computation
        self.matrices: list[int] = []
        self.writable: list[int] = []
        self.wide: list[int] = []  # of two rows and twice DIM columns, for recurrences alone
        self.temporaries: list[int] = []  # each of four rows and DIM columns
        self.defined: dict[int, np.ndarray] = {}

    def add_matrix(self, matrix: int, *, defined: bool, writable: bool, temporary: bool = False) -> None:
        """From now on commands may use this matrix; most temporaries are for chains alone."""
        whole = self.c.submatrices[matrix]
        if temporary:
            self.temporaries.append(matrix)
        if not temporary or self.random.random() < 0.2:
            self.matrices.append(matrix)
            self.writable += [matrix] if writable else []
        self.defined[whole.matrix] = np.full((whole.num_rows, whole.num_cols), defined)

    # ---- blocks ----

    def _cells(self, block: int) -> tuple[int, slice, slice]:
        s = self.c.submatrices[block]
        return s.matrix, slice(s.row_offset, s.row_offset + s.num_rows), slice(s.col_offset, s.col_offset + s.num_cols)

    def _is_defined(self, block: int) -> bool:
        matrix, rows, cols = self._cells(block)
        return bool(self.defined[matrix][rows, cols].all())

    def _define(self, block: int) -> None:
        matrix, rows, cols = self._cells(block)
        self.defined[matrix][rows, cols] = True

    def _apart(self, *blocks: int) -> bool:
        """Whether no two of these blocks overlap."""
        touched: dict[int, np.ndarray] = {}
        for block in blocks:
            matrix, rows, cols = self._cells(block)
            seen = touched.setdefault(matrix, np.zeros_like(self.defined[matrix]))
            if seen[rows, cols].any():
                return False
            seen[rows, cols] = True
        return True

    def _block(self, rows: int = 0, *, fill: bool = False) -> int:
        """A random block with DIM columns, of this many rows (0: any); `fill`: one that may be changed."""
        allowed = self.writable if fill else self.matrices
        fitting = [m for m in allowed if self.c.submatrices[m].num_rows >= rows]
        whole = self.c.submatrices[base := self.random.choice(fitting)]
        num_rows = rows or self.random.randint(1, whole.num_rows)
        row = self.random.randint(0, whole.num_rows - num_rows)
        col = self.random.randint(0, whole.num_cols - DIM)
        return self.c.new_submatrix(base, row, num_rows, col, DIM)

    def _may_fill(self, block: int) -> bool:
        return any(self.c.submatrices[m].matrix == self.c.submatrices[block].matrix for m in self.writable)

    def _rows(self, block: int) -> int:
        return self.c.submatrices[block].num_rows

    # ---- commands ----

    def compute(self, count: int, *, backward: bool) -> None:
        kinds = [self._copy_or_add, self._rows_command, self._multi, self._ranges, self._propagate, self._other]
        kinds += [self._chain] * 5 + [self._recurrence]
        if backward:
            kinds += [self._backprop] * 5 + [self._returning]
        for _ in range(count):
            self.random.choice(kinds)()

    def _emit(self, command: cmd.Command, reads: Sequence[int], writes: Sequence[int], updates: Sequence[int]) -> None:
        """Add the command unless it would read something undefined or what it fills."""
        if not all(self._is_defined(block) for block in (*reads, *updates)):
            return
        if not all(self._apart(*writes, *updates, read) for read in reads):
            return
        self.c.commands.append(command)
        for block in writes:
            self._define(block)

    def _scale(self) -> float:
        return self.random.choice([1.0, 1.0, -0.5, 2.0])

    def _copy_or_add(self) -> None:
        dest = self._block(fill=True)
        source = self._block(self._rows(dest))
        if self.random.random() < 0.6:
            self._emit(cmd.MatrixAdd(dest, source, self._scale()), [source], [], [dest])
        else:
            self._emit(cmd.MatrixCopy(dest, source, self._scale()), [source], [dest], [])

    def _rows_command(self) -> None:
        dest, source = self._block(fill=True), self._block()
        rows = [self.random.randint(-1, self._rows(source) - 1) for _ in range(self._rows(dest))]
        table = index_table(self.c, rows)
        if self.random.random() < 0.6:
            self._emit(cmd.AddRows(dest, source, table, self._scale()), [source], [], [dest])
        else:
            self._emit(cmd.CopyRows(dest, source, table, self._scale()), [source], [dest], [])

    def _multi(self) -> None:
        scatter = self.random.random() < 0.5
        matrix, others = self._block(fill=not scatter), [self._block(fill=scatter) for _ in range(3)]
        pairs = [(b, row) for b in others for row in range(self._rows(b))] + [(-1, -1)] * 3
        if scatter and not self._apart(*others):
            return
        if not scatter:
            pairs *= 2
        if len(pairs) < self._rows(matrix):
            return
        chosen = self.random.sample(pairs, self._rows(matrix))
        used, table = sorted({b for b, _ in chosen if b != -1}), multi_table(self.c, chosen)
        scale = self._scale()
        if scatter:
            self._emit(cmd.AddToRowsMulti(matrix, table, scale), [matrix], [], used)
        elif self.random.random() < 0.5:
            self._emit(cmd.AddRowsMulti(matrix, table, scale), used, [], [matrix])
        else:
            self._emit(cmd.CopyRowsMulti(matrix, table, scale), used, [matrix], [])

    def _ranges(self) -> None:
        dest, source = self._block(fill=True), self._block()
        ends = [sorted(self.random.randint(0, self._rows(source)) for _ in range(2)) for _ in range(self._rows(dest))]
        table = range_table(self.c, [(first, end) for first, end in ends])
        self._emit(cmd.AddRowRanges(dest, source, table, self._scale()), [source], [], [dest])

    def _other(self) -> None:
        outside = {bound.submatrix for bound in self.c.outside}
        matrix = self.random.choice([matrix for matrix in self.matrices if matrix not in outside])
        if self.random.random() < 0.5:
            block = self._block(fill=True)
            self._emit(cmd.SetConst(block, self._scale()), [], [block], [])
        elif self._is_defined(matrix):
            self.c.commands += [cmd.CompressMatrix(matrix), cmd.DecompressMatrix(matrix)]

    def _chain(self) -> None:
        """Temporaries in a row: copied, through kernels that can run in place, and added to something."""
        rows = self.random.randint(1, 4)
        row = self.random.randint(0, 4 - rows)
        a, b, c = (self.c.new_submatrix(m, row, rows) for m in self.random.sample(self.temporaries, 3))
        source, dest = self._block(rows), self._block(rows, fill=True)
        self._emit(cmd.MatrixCopy(a, source, self._scale()), [source], [a], [])
        kind = self.random.choice(["product", "copy", "copy", "back"])
        if kind == "product":
            other = self._block(rows)
            self._emit(cmd.Propagate(PRODUCT, "gate", (a, other), b), [a, other], [b], [])
        elif kind == "copy":
            self._emit(cmd.MatrixCopy(b, a), [a], [b], [])
        else:
            back = cmd.Backprop(SIGMOID, "sigmoid", (0,), source, a, (b,), (0,), update=False)
            self._emit(back, [source, a], [b], [])
        for start, end in self._cuts(rows):
            here, there = (self.c.new_submatrix(block, start, end - start) for block in (b, c))
            self._emit(cmd.Propagate(SIGMOID, "sigmoid", (here,), there), [here], [there], [])
        read = self.random.choices([a, b, c], [1, 1, 8])[0]
        self._emit(cmd.MatrixAdd(dest, read, self._scale()), [read], [], [dest])

    def _recurrence(self) -> None:
        """A wide kernel step by step, on rows of a source beside what it gave before, or some columns of it.

        Or a part of that kernel, whose products are added to the rows.
        """
        wide, rows = self.random.choice(self.wide), self.random.randint(1, 2)
        source, dest = self._block(4), self._block(4, fill=True)
        left, right = (self.c.new_submatrix(wide, 0, rows, at, DIM) for at in (0, DIM))
        state, is_part, width = 0, self.random.random() < 0.3, self.random.choice([1, DIM])
        for start in self.random.choice([range(0, 4, rows), range(4 - rows, -1, -rows)]):
            here, there = (self.c.new_submatrix(block, start, rows) for block in (source, dest))
            if is_part:
                inputs = (state or here, here)
                self._emit(cmd.Propagate(WIDE_SLICE, "wide", inputs, there), inputs, [there], [])
                state = there
                continue
            self._emit(cmd.MatrixCopy(left, here), [here], [left], [])
            if not state or width < DIM:
                self._emit(cmd.SetConst(right, 0.5), [], [right], [])
            if state:
                some, read = (self.c.new_submatrix(block, 0, rows, 0, width) for block in (right, state))
                self._emit(cmd.MatrixCopy(some, read), [read], [some], [])
            whole = self.c.new_submatrix(wide, 0, rows)
            self._emit(cmd.Propagate(WIDE, "wide", (whole,), there), [whole], [there], [])
            state = there

    def _returning(self) -> None:
        """Backward through a wide kernel step by step: a step sends to rows of a block, and to the step after it."""
        wide, rows = self.random.choice(self.wide), self.random.randint(1, 2)
        source, dest = self._block(4, fill=True), self._block(6, fill=True)
        shift, step = self.random.randint(0, 2), self.random.choice([0, 1, 1, 1])
        steps = list(self.random.choice([range(0, 4, rows), range(4 - rows, -1, -rows)]))
        left, right = (self.c.new_submatrix(wide, 0, rows, at, DIM) for at in (0, DIM))
        for start, after in itertools.zip_longest(steps, steps[1:]):
            here, whole = self.c.new_submatrix(source, start, rows), self.c.new_submatrix(wide, 0, rows)
            there = self.c.new_submatrix(dest, shift + step * start, rows)
            self._emit(cmd.Backprop(WIDE, "wide", (0,), 0, here, (whole,), (0,), update=False), [here], [whole], [])
            if self.random.random() < 0.5:
                self._emit(cmd.MatrixAdd(there, left), [left], [], [there])
            else:
                self._emit(cmd.MatrixCopy(there, left), [left], [there], [])
            if after is not None:
                other = self.c.new_submatrix(source, after, rows)
                self._emit(cmd.MatrixAdd(other, right), [right], [], [other])

    def _cuts(self, rows: int) -> list[tuple[int, int]]:
        """All rows in one or two pieces, in any order."""
        pieces = list(itertools.pairwise(sorted({0, rows, self.random.randint(0, rows)})))
        self.random.shuffle(pieces)
        return pieces

    # ---- kernels ----

    def _propagate(self) -> None:
        source = self._block()
        kernel = self.random.choice([AFFINE, SIGMOID, SCALED, PRODUCT, CENTRE])
        in_place = kernel == SIGMOID and self.random.random() < 0.4
        if in_place and self._is_defined(source) and self._may_fill(source):
            self.c.commands.append(cmd.Propagate(SIGMOID, "sigmoid", (source,), source))
            return
        output = self._block(self._rows(source), fill=True)
        inputs = (source, self._block(self._rows(source))) if kernel == PRODUCT else (source,)
        memo = -1
        if kernel == CENTRE:
            memo, self.c.num_memos = self.c.num_memos, self.c.num_memos + 1
        self._emit(cmd.Propagate(kernel, "node", inputs, output, 0, memo, kernel == PRODUCT), inputs, [output], [])

    def _backprop(self, rows: int = 0) -> None:
        kernel = self.random.choice([AFFINE, AFFINE, OTHER_AFFINE, SIGMOID, SCALED, PRODUCT, CENTRE, SUM])
        deriv = self._block(rows)
        rows, info = self._rows(deriv), KERNELS[kernel]
        inputs = tuple(self._block(rows) if promises.backprop_needs_value else 0 for promises in info.inputs)
        output = self._block(rows) if info.backprop_needs_output else 0
        derivs = [self._block(rows, fill=True) if self.random.random() < 0.7 else 0 for _ in info.inputs]
        adds = [promises.accumulates_deriv and self.random.random() < 0.5 for promises in info.inputs]
        input_derivs = tuple(0 if add else deriv for deriv, add in zip(derivs, adds, strict=True))
        added_derivs = tuple(deriv if add else 0 for deriv, add in zip(derivs, adds, strict=True))
        in_place = info.inputs[0].backprop_in_place and self._may_fill(deriv) and self.random.random() < 0.4
        if in_place:
            input_derivs, added_derivs = (deriv,), (0,)
        memo = -1
        if kernel == CENTRE:
            kept = (c for c in self.c.commands if isinstance(c, cmd.Propagate) and c.memo >= 0)
            made = [c.memo for c in kept if self._rows(c.output) == rows]
            if not made:
                return
            memo = self.random.choice(made)
        command = cmd.Backprop(
            kernel, "node", inputs, output, deriv, input_derivs, added_derivs, update=True, memo=memo
        )
        values = [block for block in (*inputs, output) if block]
        writes = [block for block in input_derivs if block]
        updates = [block for block in added_derivs if block]
        if not self._apart(*writes, *updates):
            return
        if in_place:
            if self._is_defined(deriv):
                self._emit(command, values, writes, [])
            return
        self._emit(command, [*values, deriv], writes, updates)
