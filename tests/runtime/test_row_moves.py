"""When rows are moved through views and when by an index: few regular pieces go by views, joined where they can be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.runtime.row_blocks import find_blocks
from tests.runtime.programs import Program, opcodes_of_last


def pieces(lengths: Sequence[int], gap: int = 0) -> list[int]:
    """A table whose pieces of consecutive rows stand backwards, so that no two are regular; `gap` times -1 between."""
    ends = np.cumsum(lengths[::-1])[::-1].tolist()
    parts = [[-1] * gap + list(range(end - length, end)) for end, length in zip(ends, lengths, strict=True)]
    return [row for part in parts for row in part][gap:]


def of_table(command: type[cmd.CopyRows | cmd.AddRows], table: list[int], scale: float = 1.0) -> list[str]:
    program = Program()
    dest, source = program.matrix(len(table), 3, zeroed=True), program.matrix(max(table) + 1, 3, zeroed=True)
    program.add(command(dest, source, program.index_table(table), scale))
    return [opcode for opcode in opcodes_of_last(program) if not opcode.startswith("zero")]


@pytest.mark.parametrize(
    ("lengths", "is_by_views"),
    [
        ([1] * 8, True),
        ([1] * 9, False),
        ([2] * 7 + [1] * 2, True),  # 16 rows pay for one more view
        ([2] * 6 + [1] * 3, False),
        ([16] * 30, True),
        ([2] * 30, False),
    ],
)
def test_few_pieces_go_by_views(lengths: list[int], is_by_views: bool) -> None:
    table = pieces(lengths)
    assert len(find_blocks(np.stack([np.arange(len(table)), np.array(table)], axis=1))) == len(lengths)
    assert of_table(cmd.CopyRows, table) == (["cat"] if is_by_views else ["select rows"])
    assert of_table(cmd.CopyRows, table, 0.5) == (["cat", "scale"] if is_by_views else ["select rows", "scale"])
    added = ["add each"] if len(lengths) > 11 else ["add"] * len(lengths)
    assert of_table(cmd.AddRows, table) == (added if is_by_views else ["add to rows"])


@pytest.mark.parametrize("count", [1, 2, 11, 12, 13])
def test_many_views_are_one_call(count: int) -> None:
    """With gaps in what is written nothing can be joined."""
    table = pieces([8] * count, gap=1)
    is_each = count >= 12
    assert of_table(cmd.CopyRows, table) == (["copy each"] if is_each else ["copy"] * count)
    assert of_table(cmd.CopyRows, table, 2.0) == ["scaled copy"] * count
    assert of_table(cmd.AddRows, table) == (["add each"] if is_each else ["add"] * count)
    assert of_table(cmd.AddRows, table, 2.0) == (["add each"] if is_each else ["scaled add"] * count)


def test_a_regular_pattern_is_one_view() -> None:
    transposed = np.arange(60).reshape(6, 10).T.reshape(-1).tolist()
    for table in (transposed, [*range(0, 60, 3)], [7] * 40, [*range(20)]):
        assert of_table(cmd.CopyRows, table) == ["copy"]
        assert of_table(cmd.AddRows, table) == ["add"]


@pytest.mark.parametrize("periods", [4, 5, 40])
def test_phases_that_stand_together_are_moved_by_one_view_each(periods: int) -> None:
    """Two frames of three, four sequences, in order of time, where the source has all frames of a phase together."""
    frame = [[i, periods + i, None] for i in range(periods)]
    table = [-1 if f is None else 4 * f + n for period in frame for f in period for n in range(4)]
    assert of_table(cmd.AddRows, table) == ["add"] * 2
    assert of_table(cmd.CopyRows, table) == ["copy"] * 2
    program = Program()
    dest, *phases = (program.matrix(rows, 3, zeroed=True) for rows in (len(table), 4 * periods, 4 * periods))
    multi = [(phases[row // (4 * periods)], row % (4 * periods)) if row >= 0 else (-1, -1) for row in table]
    program.add(cmd.AddRowsMulti(dest, program.multi_table(multi)))
    assert opcodes_of_last(program) == ["add"] * 2


SHUFFLED = np.random.default_rng(1).permutation(40).tolist()


@pytest.mark.parametrize(
    ("command", "table", "scale", "expected"),
    [
        (cmd.CopyRows, SHUFFLED, 1.0, ["select rows"]),
        (cmd.CopyRows, SHUFFLED[:30], 0.5, ["select rows", "scale"]),
        (cmd.CopyRows, [row for each in SHUFFLED for row in (each, -1)], 1.0, ["copy to rows"]),
        (cmd.CopyRows, [row for each in SHUFFLED for row in (each, -1)], 0.5, ["select rows", "scale", "copy to rows"]),
        (cmd.CopyRows, [row for each in SHUFFLED[:30] for row in (each, -1)], 1.0, ["select rows", "copy to rows"]),
        (cmd.AddRows, SHUFFLED, 0.5, ["add to rows"]),
        (cmd.AddRows, SHUFFLED[:30], 1.0, ["select rows", "add"]),
        (cmd.AddRows, SHUFFLED[:30], 0.5, ["select rows", "scaled add"]),
        (cmd.AddRows, [row for each in SHUFFLED for row in (each, -1)], 1.0, ["add to rows"]),
        (cmd.AddRows, [row for each in SHUFFLED[:30] for row in (each, -1)], 1.0, ["select rows", "add to rows"]),
    ],
)
def test_an_index_is_used_with_as_few_calls_as_can_be(
    command: type[cmd.CopyRows | cmd.AddRows], table: list[int], scale: float, expected: list[str]
) -> None:
    assert of_table(command, table, scale) == expected


def test_few_missing_rows_are_set_to_zero_by_views() -> None:
    distances = np.random.default_rng(2).permutation(np.arange(1, 15))
    seen = set()
    for count in range(1, 14):
        missing = np.cumsum(distances)[:count]
        table = np.arange(missing[-1] + 1)
        table[missing] = -1
        program = Program()
        dest, source = (program.matrix(len(table), 2, zeroed=True) for _ in range(2))
        program.add(cmd.CopyRows(dest, source, program.index_table(table.tolist())))
        blocks = len(find_blocks(missing[:, np.newaxis]))
        zeroed = [opcode for opcode in opcodes_of_last(program) if opcode.startswith("zero")]
        assert zeroed == (["zero"] * blocks if blocks <= 8 else ["zero rows"])
        seen.add(blocks)
    assert seen >= {8, 9}


@pytest.mark.parametrize(
    ("counts", "is_by_views"),
    [([1] * 17, True), ([1] * 18, False), ([2] * 18, True), ([2] * 16 + [1] * 2, True), ([2] * 15 + [1] * 3, True)],
)
@pytest.mark.parametrize("scatters", [False, True])
def test_views_of_several_matrices_may_be_more(counts: list[int], is_by_views: bool, scatters: bool) -> None:
    """Up to 8 for each: by an index each matrix would need calls of its own."""
    program = Program()
    table = pieces(counts)
    whole = program.matrix(len(table), 3, zeroed=True)
    first, second = program.matrix(len(table), 3, zeroed=True), program.matrix(len(table), 3, zeroed=True)
    half = sum(counts[len(counts) // 2 :])  # the pieces of one matrix end there
    multi = program.multi_table([(second if row >= half else first, row) for row in table])
    program.add(cmd.AddToRowsMulti(whole, multi) if scatters else cmd.AddRowsMulti(whole, multi))
    opcodes = opcodes_of_last(program)
    assert ("add to rows" not in opcodes and "select rows" not in opcodes) == is_by_views
