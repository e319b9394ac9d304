"""A slow and obvious interpreter of computations in float64, against which passes (and the real executor) are tested.

Undefined contents are NaN, a matrix that is not allocated is not there, and rows are handled one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import named_slice

Array = np.ndarray


class ToyKernel(Protocol):
    """What the interpreter wants of a kernel; see computation.toy_kernels."""

    def forward(self, inputs: Sequence[Array]) -> tuple[Array, Any]: ...

    def backward(
        self, inputs: Sequence[Array | None], output: Array | None, deriv: Array, memo: Any, update: bool
    ) -> list[Array]: ...


class Interpreter:
    """Runs a computation segment by segment. `given` is what AcceptInput finds, `outside` what lies there, by name."""

    def __init__(
        self,
        computation: NnetComputation,
        kernels: Mapping[str, ToyKernel],
        given: Mapping[str, Array],
        outside: Mapping[str, Array],
    ):
        self.computation, self.kernels, self.given = computation, kernels, given
        self.matrices: dict[int, Array] = {}
        for bound in computation.outside:
            self.matrices[self.number(bound.submatrix)] = outside[bound.name]
        self.compressed: dict[int, Array] = {}
        self.memos: dict[int, Any] = {}
        self.outputs: list[tuple[str, Array]] = []
        self.stats: list[tuple[str, Array]] = []
        self.place = 0
        self.peak_elements = 0

    def run_segment(self) -> None:
        """Up to the next segment marker, or the end."""
        commands = self.computation.commands
        while self.place < len(commands):
            command = commands[self.place]
            self.place += 1
            if isinstance(command, cmd.SegmentMarker):
                return
            getattr(self, "do_" + type(command).__name__)(command)
            self.peak_elements = max(self.peak_elements, sum(m.size for m in self.matrices.values()))

    def run(self) -> list[tuple[str, Array]]:
        """All segments; the outputs in the order in which they came."""
        while self.place < len(self.computation.commands):
            self.run_segment()
        return self.outputs

    # ---- helpers ----

    def view(self, submatrix: int) -> Array:
        s = self.computation.submatrices[submatrix]
        matrix = self.matrices[s.matrix]
        return matrix[s.row_offset : s.row_offset + s.num_rows, s.col_offset : s.col_offset + s.num_cols]

    def maybe(self, submatrix: int) -> Array | None:
        return self.view(submatrix).copy() if submatrix else None

    def number(self, submatrix: int) -> int:
        return self.computation.submatrices[submatrix].matrix

    def kernel(self, name: str) -> ToyKernel:
        """A kernel, or a slice of one."""
        sliced = named_slice(name)
        if sliced is None:
            return self.kernels[name]
        whole: Any = self.kernels[sliced[0]]
        made: ToyKernel = whole.slice(*sliced[1:])
        return made

    # ---- memory ----

    def do_AllocMatrix(self, c: cmd.AllocMatrix) -> None:
        number = self.number(c.matrix)
        assert number not in self.matrices
        size = self.computation.matrices[number]
        self.matrices[number] = np.full((size.num_rows, size.num_cols), 0.0 if c.zeroed else np.nan)

    def do_DeallocMatrix(self, c: cmd.DeallocMatrix) -> None:
        del self.matrices[self.number(c.matrix)]

    def do_SetConst(self, c: cmd.SetConst) -> None:
        self.view(c.dest)[:] = c.value

    def do_CompressMatrix(self, c: cmd.CompressMatrix) -> None:
        matrix = self.matrices.pop(self.number(c.matrix))
        self.compressed[self.number(c.matrix)] = (matrix > 0) * 1.0

    def do_DecompressMatrix(self, c: cmd.DecompressMatrix) -> None:
        self.matrices[self.number(c.matrix)] = self.compressed.pop(self.number(c.matrix))

    # ---- kernels ----

    def do_Propagate(self, c: cmd.Propagate) -> None:
        name = self.computation.kernels[c.kernel].name
        output, memo = self.kernel(name).forward([self.view(s).copy() for s in c.inputs])
        self.view(c.output)[:] = output
        if c.memo >= 0:
            self.memos[c.memo] = memo
        if c.store_stats:
            self.stats.append((name, output))

    def do_PropagateAgain(self, c: cmd.PropagateAgain) -> None:
        assert c.memo < 0 or c.memo in self.memos
        self.view(c.output)[:], _ = self.kernel(self.computation.kernels[c.kernel].name).forward(
            [self.view(s).copy() for s in c.inputs]
        )

    def do_Backprop(self, c: cmd.Backprop) -> None:
        kernel = self.kernel(self.computation.kernels[c.kernel].name)
        inputs = [self.maybe(s) for s in c.inputs]
        derivs = kernel.backward(
            inputs, self.maybe(c.output), self.view(c.output_deriv).copy(), self.memos.get(c.memo), c.update
        )
        for number, added, deriv in zip(c.input_derivs, c.added_derivs, derivs, strict=True):
            if number:
                self.view(number)[:] = deriv
            if added:
                self.view(added)[:] += deriv

    # ---- copying and adding ----

    def do_MatrixCopy(self, c: cmd.MatrixCopy) -> None:
        self.view(c.dest)[:] = c.scale * self.view(c.source)

    def do_MatrixAdd(self, c: cmd.MatrixAdd) -> None:
        self.view(c.dest)[:] += c.scale * self.view(c.source)

    def do_CopyRows(self, c: cmd.CopyRows) -> None:
        dest, source = self.view(c.dest), self.view(c.source)
        for i, row in enumerate(self.computation.index_tables[c.indexes]):
            dest[i] = 0.0 if row == -1 else c.scale * source[row]

    def do_AddRows(self, c: cmd.AddRows) -> None:
        dest, source = self.view(c.dest), self.view(c.source)
        for i, row in enumerate(self.computation.index_tables[c.indexes]):
            if row != -1:
                dest[i] += c.scale * source[row]

    def do_CopyRowsMulti(self, c: cmd.CopyRowsMulti) -> None:
        dest = self.view(c.dest)
        for i, (submatrix, row) in enumerate(self.computation.multi_tables[c.table]):
            dest[i] = 0.0 if submatrix == -1 else c.scale * self.view(submatrix)[row]

    def do_AddRowsMulti(self, c: cmd.AddRowsMulti) -> None:
        dest = self.view(c.dest)
        for i, (submatrix, row) in enumerate(self.computation.multi_tables[c.table]):
            if submatrix != -1:
                dest[i] += c.scale * self.view(submatrix)[row]

    def do_AddToRowsMulti(self, c: cmd.AddToRowsMulti) -> None:
        for values, (submatrix, row) in zip(self.view(c.source), self.computation.multi_tables[c.table], strict=True):
            if submatrix != -1:
                self.view(submatrix)[row] += c.scale * values

    def do_AddRowRanges(self, c: cmd.AddRowRanges) -> None:
        dest, source = self.view(c.dest), self.view(c.source)
        for i, (first, end) in enumerate(self.computation.range_tables[c.ranges]):
            for row in range(first, end):
                dest[i] += c.scale * source[row]

    # ---- the outside world ----

    def do_AcceptInput(self, c: cmd.AcceptInput) -> None:
        self.view(c.dest)[:] = self.given[c.name]

    def do_ProvideOutput(self, c: cmd.ProvideOutput) -> None:
        self.outputs.append((c.name, self.view(c.source).copy()))
