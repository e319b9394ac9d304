"""Random valid computations: any command on any blocks, as long as nothing undefined is read and nothing overlaps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random

import numpy as np
from hypothesis import strategies as st

from computation.programs import index_table, multi_table, range_table
from computation.toy_kernels import AFFINE, CENTRE, DIM, KERNELS, OTHER_AFFINE, PRODUCT, SCALED, SIGMOID
from nnet3.computation import commands as cmd
from nnet3.computation.computation import IoInfo, NnetComputation


def programs() -> st.SearchStrategy[NnetComputation]:
    """A forward and a backward segment over a few matrices that all live from beginning to end."""
    # A seed, because recording every random choice for shrinking takes ten times as long as all else.
    return st.integers(0, 2**32 - 1).map(lambda seed: ProgramWriter(Random(seed)).program())


class ProgramWriter:
    """Writes commands, and keeps track of which elements are defined."""

    def __init__(self, random: Random):
        self.random = random
        self.c = NnetComputation(kernels=list(KERNELS), need_model_derivative=True)
        self.matrices: list[int] = []
        self.defined: dict[int, np.ndarray] = {}

    def program(self) -> NnetComputation:
        c = self.c
        for _ in range(self.random.randint(4, 7)):
            self._allocate()
        x, out, x_deriv, out_deriv = (self._allocate() for _ in range(4))
        c.inputs, c.outputs = [IoInfo("input", x, x_deriv)], [IoInfo("output", out, out_deriv)]
        self._accept(x, "input")
        self._compute(self.random.randint(3, 12), backward=False)
        self._provide(out, "output")
        c.commands.append(cmd.SegmentMarker())
        self._accept(out_deriv, "output")
        self._compute(self.random.randint(3, 12), backward=True)
        self._provide(x_deriv, "input")
        kept = {m for m in (out, x_deriv) if self.random.random() < 0.5}
        c.commands += [cmd.DeallocMatrix(m) for m in self.matrices if m not in kept]
        return c

    # ---- memory and the outside world ----

    def _allocate(self) -> int:
        rows, cols = self.random.randint(2, 6), DIM * self.random.randint(1, 2)
        matrix = self.c.new_matrix(rows, cols)
        zeroed = self.random.random() < 0.7
        self.c.commands.append(cmd.AllocMatrix(matrix, zeroed))
        self.matrices.append(matrix)
        self.defined[self.c.submatrices[matrix].matrix] = np.full((rows, cols), zeroed)
        return matrix

    def _accept(self, matrix: int, name: str) -> None:
        self.c.commands.append(cmd.AcceptInput(matrix, name))
        self._define(matrix)

    def _provide(self, matrix: int, name: str) -> None:
        if not self._is_defined(matrix):
            self.c.commands.append(cmd.SetConst(matrix, 1.0))
            self._define(matrix)
        self.c.commands.append(cmd.ProvideOutput(matrix, name))

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

    def _block(self, rows: int = 0) -> int:
        """A random block with DIM columns, of this many rows (0: any)."""
        fitting = [m for m in self.matrices if self.c.submatrices[m].num_rows >= rows]
        whole = self.c.submatrices[base := self.random.choice(fitting)]
        num_rows = rows or self.random.randint(1, whole.num_rows)
        row = self.random.randint(0, whole.num_rows - num_rows)
        col = self.random.randint(0, whole.num_cols - DIM)
        return self.c.new_submatrix(base, row, num_rows, col, DIM)

    def _rows(self, block: int) -> int:
        return self.c.submatrices[block].num_rows

    # ---- commands ----

    def _compute(self, count: int, *, backward: bool) -> None:
        kinds = [self._copy_or_add, self._rows_command, self._multi, self._ranges, self._propagate, self._other]
        if backward:
            kinds += [self._backprop, self._backprop, self._pieces, self._pieces]
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
        dest = self._block()
        source = self._block(self._rows(dest))
        if self.random.random() < 0.6:
            self._emit(cmd.MatrixAdd(dest, source, self._scale()), [source], [], [dest])
        else:
            self._emit(cmd.MatrixCopy(dest, source, self._scale()), [source], [dest], [])

    def _rows_command(self) -> None:
        dest, source = self._block(), self._block()
        rows = [self.random.randint(-1, self._rows(source) - 1) for _ in range(self._rows(dest))]
        table = index_table(self.c, rows)
        if self.random.random() < 0.6:
            self._emit(cmd.AddRows(dest, source, table, self._scale()), [source], [], [dest])
        else:
            self._emit(cmd.CopyRows(dest, source, table, self._scale()), [source], [dest], [])

    def _multi(self) -> None:
        matrix, others = self._block(), [self._block() for _ in range(3)]
        pairs = [(b, row) for b in others for row in range(self._rows(b))] + [(-1, -1)] * 3
        scatter = self.random.random() < 0.5
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
            kind = self.random.choice([cmd.AddToRowsMulti, cmd.CopyToRowsMulti])
            self._emit(kind(matrix, table, scale), [matrix], [], used)
        elif self.random.random() < 0.5:
            self._emit(cmd.AddRowsMulti(matrix, table, scale), used, [], [matrix])
        else:
            self._emit(cmd.CopyRowsMulti(matrix, table, scale), used, [matrix], [])

    def _ranges(self) -> None:
        dest, source = self._block(), self._block()
        ends = [sorted(self.random.randint(0, self._rows(source)) for _ in range(2)) for _ in range(self._rows(dest))]
        table = range_table(self.c, [(first, end) for first, end in ends])
        self._emit(cmd.AddRowRanges(dest, source, table, self._scale()), [source], [], [dest])

    def _other(self) -> None:
        kind = self.random.choice(["set", "swap", "compress", "noop"])
        matrix = self.random.choice(self.matrices)
        if kind == "set":
            block = self._block()
            self._emit(cmd.SetConst(block, self._scale()), [], [block], [])
        elif kind == "noop":
            self.c.commands.append(cmd.NoOp())
        elif kind == "compress" and self._is_defined(matrix):
            self.c.commands += [cmd.CompressMatrix(matrix, "bfloat16"), cmd.DecompressMatrix(matrix)]
        elif kind == "swap":
            size = self.c.matrices[self.c.submatrices[matrix].matrix]
            same = [m for m in self.matrices if m != matrix and self.c.matrices[self.c.submatrices[m].matrix] == size]
            if same:
                other = self.random.choice(same)
                self._emit(cmd.SwapMatrix(matrix, other), [], [], [matrix, other])

    # ---- kernels ----

    def _propagate(self) -> None:
        source = self._block()
        kernel = self.random.choice([AFFINE, SIGMOID, SCALED, PRODUCT, CENTRE])
        if kernel == SIGMOID and self.random.random() < 0.4 and self._is_defined(source):
            self.c.commands.append(cmd.Propagate(SIGMOID, "sigmoid", (source,), source))
            return
        output = self._block(self._rows(source))
        inputs = (source, self._block(self._rows(source))) if kernel == PRODUCT else (source,)
        memo = -1
        if kernel == CENTRE:
            memo, self.c.num_memos = self.c.num_memos, self.c.num_memos + 1
        self._emit(cmd.Propagate(kernel, "node", inputs, output, 0, memo, kernel == PRODUCT), inputs, [output], [])

    def _backprop(self, rows: int = 0) -> None:
        kernel = self.random.choice([AFFINE, AFFINE, OTHER_AFFINE, SIGMOID, SCALED, PRODUCT, CENTRE])
        deriv = self._block(rows)
        rows, info = self._rows(deriv), KERNELS[kernel]
        inputs = tuple(self._block(rows) if promises.backprop_needs_value else 0 for promises in info.inputs)
        output = self._block(rows) if info.backprop_needs_output else 0
        derivs = [self._block(rows) if self.random.random() < 0.7 else 0 for _ in info.inputs]
        adds = [promises.accumulates_deriv and self.random.random() < 0.5 for promises in info.inputs]
        input_derivs = tuple(0 if add else deriv for deriv, add in zip(derivs, adds, strict=True))
        added_derivs = tuple(deriv if add else 0 for deriv, add in zip(derivs, adds, strict=True))
        in_place = info.inputs[0].backprop_in_place and self.random.random() < 0.4
        if in_place:
            input_derivs, added_derivs = (deriv,), (0,)
        memo = -1
        if kernel == CENTRE:
            made = [c.memo for c in self.c.commands if isinstance(c, cmd.Propagate) and c.memo >= 0]
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

    def _pieces(self) -> None:
        """Backward of one kernel on neighbouring blocks of the same matrices, in any order, as a recurrence has it."""
        whole = self._block()
        value = self._block(self._rows(whole))
        cuts = sorted({0, self._rows(whole), self.random.randint(0, self._rows(whole))})
        pieces = list(itertools.pairwise(cuts))
        self.random.shuffle(pieces)
        kernel = self.random.choice([AFFINE, SCALED])
        for start, end in pieces:
            deriv, here = (self.c.new_submatrix(b, start, end - start) for b in (whole, value))
            inputs, output = ((here,), 0) if kernel == AFFINE else ((0,), here)
            input_deriv = self._block(end - start) if self.random.random() < 0.5 else 0
            command = cmd.Backprop(kernel, "node", inputs, output, deriv, (input_deriv,), (0,), update=True)
            self._emit(command, [here, deriv], [input_deriv] if input_deriv else [], [])
