"""translate: programs of row commands with random tables give what the executor gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from nnet3.engine.ir import commands
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import IoInfo
from nnet3.engine.runtime import NnetComputer
from nnet3.errors import ExportError
from nnet3.export.emitter_table import Emission
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.program import FixedProgram
from nnet3.export.translate import translate
from nnet3.model.nnet import Nnet
from tests.effort import draws
from tests.export.onnx_run import feature_input, run_graph

ROWS, COLUMNS = 9, 3
_tables = st.lists(st.integers(-1, ROWS - 1), min_size=ROWS, max_size=ROWS)
_sources = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=ROWS, max_size=ROWS)
FEATURES = np.random.default_rng(0).standard_normal((2, ROWS, COLUMNS)).astype(np.float32)


def _no_kernel(about: Emission, inputs: Sequence[OnnxValue]) -> OnnxValue:
    raise AssertionError(f"a program without kernels has {about.name}")


class _Program:
    """input -> x; y = 0; commands that read x and change y; y -> output."""

    def __init__(self) -> None:
        c = self.computation = NnetComputation()
        self.x, self.y = c.new_matrix(ROWS, COLUMNS), c.new_matrix(ROWS, COLUMNS)
        c.inputs, c.outputs = [IoInfo("input", self.x, 0)], [IoInfo("output", self.y, 0)]
        self.blocks = [c.new_submatrix(self.x, row, 4) for row in (0, 3, 5)]

    def multi_table(self, pairs: list[tuple[int, int]]) -> int:
        numbers = [(self.blocks[block], row) if row < 3 or block else (-1, -1) for block, row in pairs]
        return self.computation.new_multi_table(np.array(numbers, np.int32))

    def check(self, *changes: commands.Command) -> None:
        self.computation.commands = [
            commands.AllocMatrix(self.x, zeroed=False),
            commands.AllocMatrix(self.y, zeroed=True),
            commands.AcceptInput(self.x, "input"),
            *changes,
            commands.ProvideOutput(self.y, "output"),
        ]
        graph = GraphBuilder()
        x = feature_input(graph, ROWS, COLUMNS)
        found = run_graph(
            graph, translate(graph, FixedProgram(self.computation), _no_kernel, {"input": x})["output"], x, FEATURES
        )
        for sequence, rows in zip(FEATURES, found, strict=True):
            computer = NnetComputer(self.computation, Nnet((), {}))
            computer.accept_input("input", torch.from_numpy(sequence))
            computer.run()
            np.testing.assert_allclose(rows, computer.get_output("output").numpy(), rtol=1e-6, atol=1e-6)


@settings(max_examples=draws(15))
@given(_tables, _tables)
def test_rows_by_number(copied: list[int], added: list[int]) -> None:
    program = _Program()
    first, second = (program.computation.new_index_table(np.array(rows, np.int32)) for rows in (copied, added))
    program.check(
        commands.CopyRows(program.y, program.x, first, 2.0),
        commands.AddRows(program.y, program.x, second, -0.5),
        commands.MatrixAdd(program.y, program.x),
    )


@settings(max_examples=draws(15))
@given(_sources, _sources)
def test_rows_of_several_blocks(copied: list[tuple[int, int]], added: list[tuple[int, int]]) -> None:
    program = _Program()
    program.check(
        commands.CopyRowsMulti(program.y, program.multi_table(copied)),
        commands.AddRowsMulti(program.y, program.multi_table(added), 0.5),
    )


def test_blocks_and_constants() -> None:
    program = _Program()
    block = program.computation.new_submatrix(program.y, 2, 4, 1, 2)
    source = program.computation.new_submatrix(program.x, 5, 4, 0, 2)
    part = program.computation.new_submatrix(program.y, 2, 3, 1, 2)  # of the block; no command may add to what it reads
    program.check(
        commands.MatrixCopy(program.y, program.x),
        commands.SetConst(program.computation.new_submatrix(program.y, 0, 3), 7.0),
        commands.MatrixCopy(block, source, 3.0),
        commands.MatrixAdd(program.computation.new_submatrix(program.y, 6, 3, 1, 2), part),
    )


def test_commands_of_training_are_refused() -> None:
    program = _Program()
    ranges = program.computation.new_range_table(np.zeros((ROWS, 2), np.int32))
    with pytest.raises(ExportError, match=r"^AddRowRanges cannot be exported: it belongs to training$"):
        program.check(commands.AddRowRanges(program.y, program.x, ranges))
