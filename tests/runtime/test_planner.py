"""The planner: scratch memory, tables that are looked at once."""

from __future__ import annotations

from typing import Any

import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.runtime import plan, planner
from tests.runtime.programs import Program


def test_scratch_lies_between_what_is_alive() -> None:
    """Sums need room for one matrix; a gap between two that are alive is large enough."""
    program = Program()
    a, gap, b = (program.matrix(16, 4, zeroed=True) for _ in range(3))
    program.add(cmd.DeallocMatrix(gap))
    program.add(cmd.AddRowRanges(a, b, program.range_table([(row, row + 1) for row in range(16)])))
    assert plan(program.computation).num_bytes == 3 * 16 * 4 * 4


def test_equal_index_tables_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return row_pattern(*args)

    row_pattern = planner.row_pattern
    monkeypatch.setattr(planner, "row_pattern", counted)
    program = Program()
    source, dest = program.matrix(9, 2, zeroed=True), program.matrix(3, 2)
    for _ in range(5):
        program.add(cmd.CopyRows(dest, source, program.index_table([4, 2, 7])))
    plan(program.computation)
    assert calls == 1
