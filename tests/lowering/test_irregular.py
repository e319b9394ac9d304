"""Rows that follow no pattern: gathered and sent back by tables, against the rows one by one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering.irregular import IrregularGather
from nnet3.engine.lowering.locations import NodeMatrices, RowStorage
from nnet3.engine.lowering.reading import GatheredNode, SlotPattern
from nnet3.engine.lowering.source import GatherPart, NodeKind, SourceNode
from tests.ir.interpreter import Interpreter
from tests.seeds import shifted

NUM_COLS, SOURCE_ROWS = 2, (5, 4, 6)
GATHERED = len(SOURCE_ROWS)


class Case:
    """A gathered node of three sources, whose slots look at random rows; `m` members of each row.

    The first two sources may be columns or rows of the last one.
    """

    def __init__(self, seed: int):
        rng = self.rng = np.random.default_rng(shifted(seed))
        self.m, self.rows = int(rng.integers(1, 4)), int(rng.integers(1, 9))
        num_slots = int(rng.integers(0, 4))
        self.nodes = rng.integers(0, GATHERED, (self.rows, num_slots))
        if rng.random() < 0.5:  # each slot looks at one source
            self.nodes[:] = rng.integers(0, GATHERED, num_slots)
        limit = np.array(SOURCE_ROWS)[self.nodes]
        self.source_rows = rng.integers(0, limit) if num_slots else np.zeros((self.rows, 0), int)
        if rng.random() < 0.3 and num_slots:  # many rows look at one
            self.source_rows[:, 0] = self.source_rows[0, 0] % min(SOURCE_ROWS)
        self.source_rows[rng.random(self.source_rows.shape) < 0.3] = -1
        same = rng.random() < 0.5
        scales = {node: 1.0 if same else float(rng.choice([1.0, -0.5, 2.0])) for node in range(GATHERED)}
        constant, default = float(rng.choice([0.0, 0.25])), float(rng.choice([0.0, 0.7]))
        self.part = GatherPart(NUM_COLS, 0, num_slots, constant, default, scales)
        self._make(rng.choice(["own matrices", "columns", "rows"]))

    def _make(self, kind: str) -> None:
        self.computation = NnetComputation()
        nodes = [SourceNode(f"source{n}", NodeKind.PROVIDED, NUM_COLS) for n in range(GATHERED)]
        nodes.append(SourceNode("gathered", NodeKind.GATHERED, NUM_COLS, parts=(self.part,)))
        schedule = SimpleNamespace(
            nodes=nodes,
            multiplicity=lambda node: self.m,
            step_indexes=lambda step: np.zeros((step.num_rows * self.m, 3), np.int32),
        )
        self.storage = [RowStorage(node) for node in range(len(nodes))]
        if kind == "columns":
            self.storage[:GATHERED] = [RowStorage(2, col_offset=offset) for offset in self.rng.permutation(3).tolist()]
        elif kind == "rows":
            self.storage[:2] = [RowStorage(2, row_shift=1), RowStorage(2, row_shift=2)]
        self.stored = NodeMatrices(schedule, self.computation, False, self.storage)  # type: ignore[arg-type]
        self.num_cols = [NUM_COLS + 2 if kind == "columns" and node == 2 else NUM_COLS for node in range(len(nodes))]
        for node, rows in enumerate((*SOURCE_ROWS, self.rows)):
            self.stored.matrix[node] = self.computation.new_matrix(rows * self.m, self.num_cols[node])
        slots = [self._pattern(*each) for each in zip(self.nodes.T, self.source_rows.T, strict=True)]
        self.slots = [slot for slot in slots if slot.used.any()]
        one = np.zeros(1, np.int64)
        node = GatheredNode(GATHERED, ((self.part, 0, self.slots),), one, one + self.rows)
        self.code = IrregularGather(self.computation, node)

    def _pattern(self, nodes: np.ndarray, rows: np.ndarray) -> SlotPattern:
        none = np.zeros(1, np.int64)
        return SlotPattern(np.where(rows >= 0, nodes, -1), rows, none, none, none, none, np.zeros(1, bool))

    def run(self, commands: list[cmd.Command], matrices: list[np.ndarray]) -> None:
        """Runs the commands on these matrices, in place; they must keep the rules of the checker."""
        assert [problem for command in commands for problem in command.problems(self.computation)] == []
        self.computation.commands = commands
        machine = Interpreter(self.computation, {}, {}, {})
        for node, matrix in enumerate(matrices):
            machine.matrices[machine.number(self.stored.matrix[node])] = matrix
        machine.run_segment()

    def looks(self) -> list[tuple[int, int, int, float]]:
        """Row of the gathered matrix, source, row there and scale, members included."""
        return [
            (row * self.m + member, node, at * self.m + member, self.part.scale_of_source[node])
            for row in range(self.rows)
            for node, at in zip(self.nodes[row].tolist(), self.source_rows[row].tolist(), strict=True)
            if at >= 0
            for member in range(self.m)
        ]

    def matrices(self) -> list[np.ndarray]:
        sizes = zip((*SOURCE_ROWS, self.rows), self.num_cols, strict=True)
        return [self.rng.standard_normal((rows * self.m, cols)) for rows, cols in sizes]

    def seen(self, matrices: list[np.ndarray], node: int) -> np.ndarray:
        """The rows and columns of a node in these matrices."""
        own = self.storage[node]
        return matrices[own.root][own.row_shift * self.m :, own.col_offset : own.col_offset + NUM_COLS]


@pytest.mark.parametrize("block", range(4))
def test_irregular_gathers_agree_with_the_oracle(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        case = Case(seed)
        matrices = case.matrices()
        matrices[GATHERED][:] = np.nan
        target = case.stored.matrix[GATHERED]
        commands = case.code.forward(case.part, case.slots, target, case.stored, 0, case.rows)
        want = np.full_like(matrices[GATHERED], case.part.constant)
        used = np.zeros(len(want), bool)
        for row, node, at, scale in case.looks():
            want[row] += scale * case.seen(matrices, node)[at]
            used[row] = True
        want[~used] += case.part.default
        case.run(list(commands), matrices)
        assert np.allclose(matrices[GATHERED], want, atol=1e-12)


def test_irregular_scatters_agree_with_the_oracle() -> None:
    kinds: set[type[cmd.Command]] = set()
    for seed in range(400):
        case = Case(seed)
        matrices = case.matrices()
        needed = np.append(case.rng.random(GATHERED) < 0.8, True)
        want = [matrix.copy() for matrix in matrices]
        for row, node, at, scale in case.looks():
            if needed[node]:
                case.seen(want, node)[at] += scale * matrices[GATHERED][row]
        origin = case.stored.matrix[GATHERED]
        commands = list(case.code.backward(case.part, case.slots, origin, case.stored, 0, case.rows, needed))
        kinds |= {type(command) for command in commands}
        case.run(commands, matrices)
        for got, expected in zip(matrices, want, strict=True):
            assert np.allclose(got, expected, atol=1e-12)
    assert kinds >= {cmd.MatrixAdd, cmd.AddRows, cmd.AddRowRanges, cmd.AddToRowsMulti, cmd.CopyRows}
