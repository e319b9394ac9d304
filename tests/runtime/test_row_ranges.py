"""When sums over ranges of rows go through views, and when rows are gathered."""

from __future__ import annotations

import pytest

from nnet3.engine.ir import commands as cmd
from tests.runtime.programs import Program, opcodes_of_last


def _opcodes(ranges: list[tuple[int, int]]) -> list[str]:
    program = Program()
    dest, source = program.matrix(len(ranges), 3, zeroed=True), program.matrix(50, 3, zeroed=True)
    program.add(cmd.AddRowRanges(dest, source, program.range_table(ranges), 0.5))
    return opcodes_of_last(program)


VIEWS, BY_LENGTH = ["sum", "scaled add"], ["select rows", "sum", "add to rows"]


@pytest.mark.parametrize(
    ("runs", "is_by_views"),
    [
        ([1] * 8, True),
        ([1] * 9, False),
        ([2] * 7 + [1] * 2, True),  # 16 rows pay for one more view
        ([2] * 6 + [1] * 3, False),
        ([40], True),
    ],
)
def test_few_runs_of_equal_lengths_go_by_views(runs: list[int], is_by_views: bool) -> None:
    """Each run of ranges has another length than the one before it."""
    ranges = [(0, 1 + number % 2) for number, count in enumerate(runs) for _ in range(count)]
    assert _opcodes(ranges) == (VIEWS * len(runs) if is_by_views else BY_LENGTH * 2)


def test_ranges_at_equal_distances_are_one_run_and_empty_ones_nothing() -> None:
    assert _opcodes([(3 * n, 3 * n + 5) for n in range(12)]) == VIEWS
    assert _opcodes([(2, 2)] * 5) == []
    assert _opcodes([(n, n + 4) if n % 2 else (9, 9) for n in range(20)]) == VIEWS
