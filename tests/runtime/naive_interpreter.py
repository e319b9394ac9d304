"""What commands mean, in NumPy and row by row: slow and obvious, to compare the executor with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation


class NaiveInterpreter:
    """Every matrix is an array of its own; a matrix that is not allocated is not there."""

    def __init__(self, computation: NnetComputation, kernels: dict[str, Any]) -> None:
        self.computation, self.kernels = computation, kernels
        self.matrices: dict[int, np.ndarray] = {0: np.zeros((0, 0))}
        self.memos: dict[int, Any] = {}
        self.position = self.iteration = 0

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Up to the next segment marker; returns what was provided."""
        provided: dict[str, np.ndarray] = {}
        while self.position < len(self.computation.commands):
            command = self.computation.commands[self.position]
            self.position += 1
            match command:
                case cmd.SegmentMarker():
                    break
                case cmd.Repeat(iterations, length):
                    for self.iteration in range(iterations):
                        for body_command in self.computation.commands[self.position : self.position + length]:
                            self.execute(body_command)
                    self.position, self.iteration = self.position + length, 0
                case cmd.AcceptInput():
                    self.view(command.dest)[:] = inputs[command.name]
                case cmd.ProvideOutput():
                    provided[command.name] = self.view(command.source).copy()
                case _:
                    self.execute(command)
        return provided

    def view(self, submatrix: int) -> np.ndarray:
        block = self.computation.submatrices[submatrix]
        first = block.row_offset + self.iteration * block.row_step
        rows = slice(first, first + block.num_rows)
        return self.matrices[block.matrix][rows, block.col_offset : block.col_offset + block.num_cols]

    def execute(self, command: cmd.Command) -> None:
        match command:
            case cmd.AllocMatrix(sub, zeroed):
                block = self.computation.submatrices[sub]
                self.matrices[block.matrix] = np.full((block.num_rows, block.num_cols), 0.0 if zeroed else np.nan)
            case cmd.DeallocMatrix(sub):
                del self.matrices[self.computation.submatrices[sub].matrix]
            case cmd.SetConst(dest, value):
                self.view(dest)[:] = value
            case cmd.CompressMatrix(sub):
                self.view(sub)[:] = self.view(sub) > 0
            case cmd.MatrixCopy(dest, source, scale):
                self.view(dest)[:] = scale * self.view(source)
            case cmd.MatrixAdd(dest, source, scale):
                self.view(dest)[:] += scale * self.view(source)
            case cmd.Propagate():
                inputs = [torch.from_numpy(self.view(s)) for s in command.inputs]
                kernel = self.kernels[self.computation.kernels[command.kernel].name]
                kernel.run_forward(inputs, torch.from_numpy(self.view(command.output)), None)
            case cmd.DecompressMatrix():
                pass
            case _:
                self.move_rows(command)

    def move_rows(self, command: cmd.Command) -> None:
        tables = self.computation
        match command:
            case cmd.CopyRows(dest, source, table, scale):
                for to, row in zip(self.view(dest), tables.index_tables[table], strict=True):
                    to[:] = scale * self.view(source)[row] if row >= 0 else 0
            case cmd.AddRows(dest, source, table, scale):
                for to, row in zip(self.view(dest), tables.index_tables[table], strict=True):
                    to += scale * self.view(source)[row] if row >= 0 else 0
            case cmd.CopyRowsMulti(dest, table, scale):
                for to, (sub, row) in zip(self.view(dest), tables.multi_tables[table], strict=True):
                    to[:] = scale * self.view(sub)[row] if sub >= 0 else 0
            case cmd.AddRowsMulti(dest, table, scale):
                for to, (sub, row) in zip(self.view(dest), tables.multi_tables[table], strict=True):
                    to += scale * self.view(sub)[row] if sub >= 0 else 0
            case cmd.AddToRowsMulti(source, table, scale):
                for value, (sub, row) in zip(self.view(source), tables.multi_tables[table], strict=True):
                    if sub >= 0:
                        self.view(sub)[row] += scale * value
            case cmd.AddRowRanges(dest, source, table, scale):
                for to, (first, end) in zip(self.view(dest), tables.range_tables[table], strict=True):
                    to += scale * self.view(source)[first:end].sum(axis=0)
            case _:
                raise AssertionError(command)
