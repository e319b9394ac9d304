"""Who writes a derivative first, against a dictionary and by doing what it says."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings, strategies as st

from nnet3.engine.lowering.contributions import Contributions
from nnet3.engine.lowering.locations import RowStorage
from tests.effort import draws

NUM_ROWS, NUM_COLS = 6, 4
Cell = tuple[int, int]


class Case:
    """One matrix of which nodes are ranges of rows and columns, and what steps send to them."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.storage, self.num_cols = [RowStorage(0)], [NUM_COLS]
        for _ in range(rng.integers(0, 4)):
            first = int(rng.integers(0, NUM_COLS))
            self.storage.append(RowStorage(0, int(rng.integers(0, 3)), first))
            self.num_cols.append(int(rng.integers(1, NUM_COLS - first + 1)))
        nodes = [SimpleNamespace(num_cols=count) for count in self.num_cols]
        schedule = SimpleNamespace(num_rows=lambda root: NUM_ROWS, nodes=nodes)
        self.contributions = Contributions(schedule, self.storage)  # type: ignore[arg-type]
        self.sent: list[tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]] = []
        for term in range(rng.integers(1, 6)):
            self._send(term)
        settled, self.overwrites = self.contributions.settle()
        self.settled = settled[0]

    def _send(self, term: int) -> None:
        """Rows of a node from a few steps, none of which sends to a row twice."""
        rng = self.rng
        node = int(rng.integers(0, len(self.storage)))
        rows, positions, step_first = [], [], []
        for position in sorted(rng.choice(8, rng.integers(1, 4), replace=False).tolist()):
            highest = NUM_ROWS - self.storage[node].row_shift
            chosen = rng.choice(highest, rng.integers(1, highest + 1), replace=False)
            step_first.append(len(rows))
            rows += chosen.tolist()
            positions += [position] * len(chosen)
        whole = np.array(step_first) if rng.random() < 0.5 else None
        may = np.full(len(rows), rng.random() < 0.8)
        sent = np.array(rows), np.array(positions)
        self.contributions.add(node, *sent, term, may, step_first=whole)
        self.sent.append((node, *sent, may, whole))

    def cells(self, number: int, row: int) -> list[Cell]:
        node, rows, *_ = self.sent[number]
        own = self.storage[node]
        return [(int(rows[row]) + own.row_shift, own.col_offset + c) for c in range(self.num_cols[node])]

    def in_order(self) -> list[tuple[int, int]]:
        """Contribution and row, as the backward pass comes to them: later steps first, then lower terms."""
        pairs = [(n, row) for n, (_, rows, *_) in enumerate(self.sent) for row in range(len(rows))]
        return sorted(pairs, key=lambda pair: (-self.sent[pair[0]][2][pair[1]], pair[0]))


def all_uncovered(case: Case) -> dict[Cell, bool]:
    cuts = case.settled.segments
    segment = np.searchsorted(cuts, np.arange(NUM_COLS), side="right") - 1
    uncovered = case.settled.uncovered
    return {(row, c): bool(uncovered[row, segment[c]]) for row in range(NUM_ROWS) for c in range(NUM_COLS)}


@settings(max_examples=draws(300))
@given(st.integers(0, 2**32 - 1))
def test_the_sum_is_right_when_one_does_as_it_says(seed: int) -> None:
    case = Case(np.random.default_rng(seed))
    memory = {cell: 0.0 if clear else np.nan for cell, clear in all_uncovered(case).items()}
    want: dict[Cell, float] = defaultdict(float)
    for number, row in case.in_order():
        value = float(case.rng.standard_normal())
        for cell in case.cells(number, row):
            overwrites = case.overwrites[number][row]
            memory[cell] = value if overwrites else memory[cell] + value
            want[cell] += value
    for cell, value in memory.items():
        assert abs(value - want[cell]) < 1e-12


@settings(max_examples=draws(300))
@given(st.integers(0, 2**32 - 1))
def test_who_is_first_overwrites(seed: int) -> None:
    case = Case(np.random.default_rng(seed))
    first: dict[Cell, tuple[int, int]] = {}
    for pair in case.in_order():
        for cell in case.cells(*pair):
            first.setdefault(cell, pair)
    for number, (_, rows, _positions, may, whole) in enumerate(case.sent):
        is_first = np.array([all(first[cell] == (number, row) for cell in case.cells(number, row))
                             for row in range(len(rows))])  # fmt: skip
        want = is_first & may
        if whole is not None:
            for step in np.split(np.arange(len(rows)), whole[1:]):
                want[step] = want[step].all()
        assert case.overwrites[number].tolist() == want.tolist()
    last = np.full(NUM_ROWS, -1)
    for number, row in case.in_order():
        at = case.cells(number, row)[0][0]
        last[at] = max(last[at], case.sent[number][2][row])
    touched = last >= 0
    assert case.settled.first_write[touched].tolist() == last[touched].tolist()
