"""LoopTurns: what is learned of loops whose operations are functions of the turn and of its rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnet3.native.operations import ADDRESSES, NUM_MATRICES, SIZES, Operations
from nnet3.runtime.loop_turns import STAYS, LoopTurns, Sample

#: An operation of a turn and the rows of each kind, (kinds, 2).
Made = Callable[[int, np.ndarray], Operations | None]


def operation(addresses: list[int], rows: int = 3, columns: int = 5, inner: int = 2) -> Operations:
    places = [4 * each for each in addresses] + [0] * (NUM_MATRICES - len(addresses))
    return ((7, rows, columns, inner, 0, *places, *range(NUM_MATRICES)),)


def moving_on(turn: int, blocks: np.ndarray) -> Operations:
    return operation([1000 + 6 * turn, 2000, 500 - 3 * turn])


def of_blocks(turn: int, blocks: np.ndarray) -> Operations:
    """Matrices of 8, 3 and 2 columns, of which the third goes on with the turns."""
    (one, rows), (two, _), _ = blocks.tolist()
    return operation([100 + 8 * one, 9000 + 3 * two, 40 + 2 * turn], rows)


def summed(turn: int, blocks: np.ndarray) -> Operations:
    """All rows are summed, in two operations."""
    return operation([4 * int(blocks[2, 0]), 60], 1, 5, int(blocks[2, 1])) + operation([60, 70])


def squared(turn: int, blocks: np.ndarray) -> Operations:
    return operation([turn * turn])


def doubled(turn: int, blocks: np.ndarray) -> Operations:
    return operation([0], 2 * int(blocks[0, 1]))


def split(turn: int, blocks: np.ndarray) -> Operations:
    """One operation for many rows, two for few."""
    return operation([0]) * (1 if blocks[0, 1] > 3 else 2)


def never(turn: int, blocks: np.ndarray) -> None:
    return None


def falling(counts: list[int], width: int = 1) -> np.ndarray:
    """Blocks that follow each other."""
    rows = np.array(counts)
    return np.stack([np.cumsum(rows) - rows, rows], axis=1)


COUNTS = [4, 4, 4, 3, 3, 2, 2, 1, 1, 1]
UNEVEN = falling(COUNTS), falling(COUNTS)[::-1], np.array([[5, count] for count in [*COUNTS[1:], 1]])


class Loop:
    """Calls as functions, and how often each was bound."""

    def __init__(self, *calls: Made) -> None:
        self.calls, self.samples = calls, list[Sample]()

    def learn(self, turns: LoopTurns) -> list[object]:
        def operations_in(sample: Sample) -> list[Operations | None]:
            self.samples.append(sample)
            return [
                call(sample.turn, np.array([table[sample.turn] for table in sample.uneven()])) for call in self.calls
            ]

        self.samples.clear()
        return list(turns.learn(operations_in, lambda: {0, 1, 2} if len(turns.tables) else set()))


def in_turn(moving: object, turns: LoopTurns, turn: int) -> Operations:
    """The operations of a turn, as native code moves them."""
    found = []
    assert isinstance(moving, list)
    for row, moves in moving:
        numbers = np.array(row)
        of_turn, of_row, table, counted = np.split(np.array(moves), [n * NUM_MATRICES for n in (1, 2, 3)])
        first = [turns.tables[kind][turn, 0] if kind >= 0 else 0 for kind in table]
        numbers[ADDRESSES] += 4 * (turn * of_turn + of_row * first)
        counts = [
            turns.tables[kind][turn, 1] if kind >= 0 else size for kind, size in zip(counted, row[SIZES], strict=True)
        ]
        numbers[SIZES] = counts
        found.append(tuple(numbers.tolist()))
    return tuple(found)


def check(loop: Loop, turns: LoopTurns, uneven: tuple[np.ndarray, ...]) -> None:
    for call, moving in zip(loop.calls, loop.learn(turns), strict=True):
        for turn in range(turns.num_turns):
            blocks = np.array([table[turn] for table in uneven]) if uneven else np.zeros((3, 2), int)
            assert in_turn(moving, turns, turn) == call(turn, blocks)


@pytest.mark.parametrize("num_turns", [1, 2, 3, 50])
def test_addresses_that_move_by_equal_amounts(num_turns: int) -> None:
    loop = Loop(moving_on)
    check(loop, LoopTurns(num_turns), ())
    assert len(loop.samples) == min(num_turns, 3)


def test_rows_of_several_kinds() -> None:
    check(Loop(of_blocks, moving_on, summed), LoopTurns(10, UNEVEN), UNEVEN)


def test_made_up_blocks_lie_among_rows_that_there_are() -> None:
    loop, ends = Loop(of_blocks), [(table[:, 0].min(), table.sum(1).max()) for table in UNEVEN]
    loop.learn(LoopTurns(10, UNEVEN))
    for sample in loop.samples:
        for (first, count), (least, end) in zip(sample.blocks.tolist(), ends, strict=True):
            assert least <= first
            assert first + count <= end


@pytest.mark.parametrize("call", [squared, doubled, split, never])
def test_what_changes_in_other_ways_is_not_known(call: Made) -> None:
    assert [each is None for each in Loop(moving_on, call, summed).learn(LoopTurns(10, UNEVEN))] == [False, True, False]


def test_blocks_that_cannot_be_shifted_are_not_known() -> None:
    """Both kinds have only one row more than fits."""
    uneven = tuple(np.array([[0, 3], [1, 3], [1, 2]]) for _ in range(3))
    assert Loop(of_blocks).learn(LoopTurns(3, uneven)) == [None]


def test_other_lengths_take_over_what_was_learned() -> None:
    def of_two(turn: int, blocks: np.ndarray) -> Operations:
        return operation([100 + 8 * int(blocks[0, 0]), 30 - 3 * int(blocks[1, 0])], int(blocks[0, 1]))

    first = LoopTurns(10, UNEVEN, b"taken over")
    loop = Loop(of_two, summed, never)
    loop.learn(first)
    counts = [6, 5, 5, 5, 2, 2]
    uneven = falling(counts), falling(counts)[::-1], np.array([[2, count] for count in [*counts[1:], 1]])
    again = LoopTurns(6, uneven, b"taken over")
    found = loop.learn(again)
    assert len(loop.samples) == 2
    for call, moving in zip((of_two, summed), found, strict=False):
        assert [in_turn(moving, again, turn) for turn in range(6)] == [
            call(turn, np.array([table[turn] for table in uneven])) for turn in range(6)
        ]
    assert found[2] is None


def test_what_no_longer_holds_is_learned_anew() -> None:
    """Matrices with other columns, and operations that go on with the turns."""
    Loop(of_blocks, summed).learn(LoopTurns(10, UNEVEN, b"learned"))
    for call in (summed, of_blocks):
        check(Loop(call, summed), LoopTurns(10, UNEVEN, b"learned"), UNEVEN)
    equal = tuple(np.array([[3 * turn, 3] for turn in range(10)]) for _ in range(3))
    check(Loop(of_blocks, summed), LoopTurns(10, equal, b"learned"), equal)


@pytest.mark.parametrize("few_rows", ["done in another way", "not taken"])
def test_a_loop_of_few_rows_leaves_what_is_known_of_many(few_rows: str) -> None:
    """Programs for all lengths share what was learned: a short one must not make the others slow for good."""

    def of_many(turn: int, blocks: np.ndarray) -> Operations | None:
        (first, rows), _, _ = blocks.tolist()
        if few_rows == "not taken":
            return operation([8 * first], rows) if rows > 2 else None
        return operation([8 * first], rows) * (1 if rows > 1 else 2)

    def uneven(counts: list[int]) -> tuple[np.ndarray, ...]:
        return falling(counts), falling(counts)[::-1], np.array([[5, count] for count in counts])

    loop, key = Loop(of_many, summed), few_rows.encode()
    few, many = ([2, 2, 2, 2, 1, 1], [9, 9, 9, 6, 6, 5, 4])
    for counts in (few, many, few, many):
        turns = LoopTurns(len(counts), uneven(counts), key)
        found = loop.learn(turns)
        assert (found[0] is None) is (counts is few)
        if counts is many:
            check(loop, turns, uneven(counts))
    assert len(loop.samples) == 2  # what was known of many is still known


def test_what_stays_has_no_moves() -> None:
    turns = LoopTurns(4)
    assert Loop(lambda turn, blocks: operation([8, 9])).learn(turns) == [[(operation([8, 9])[0], STAYS)]]


def test_a_loop_goes_on_with_the_rows_of_others() -> None:
    """Operations stay as they were learned; tables are counted from the same rows."""

    def of_two(turn: int, blocks: np.ndarray) -> Operations:
        return operation([100 + 8 * int(blocks[0, 0]), 30 - 3 * int(blocks[1, 0])], int(blocks[0, 1]))

    turns = LoopTurns(10, UNEVEN)
    found = Loop(of_two, summed).learn(turns)
    for counts in ([6, 5, 5, 5, 2, 2], [1] * 30, [2, 1]):
        uneven = falling(counts), falling(counts)[::-1], np.array([[2, count] for count in [*counts[1:], 1]])
        if uneven[2][0, 0] != UNEVEN[2][0, 0]:  # this kind has begun at row 5 in every turn
            assert not turns.go_on(len(counts), uneven)
        uneven = (*uneven[:2], uneven[2] + [3, 0])
        assert turns.go_on(len(counts), uneven)
        assert all(table.flags.c_contiguous for table in turns.tables)
        for call, moving in zip((of_two, summed), found, strict=True):
            for turn in range(turns.num_turns):
                assert in_turn(moving, turns, turn) == call(turn, np.array([table[turn] for table in uneven]))


@pytest.mark.parametrize("wrong", ["counts of kinds that were alike", "a count that stayed", "nothing was learned"])
def test_a_loop_does_not_go_on_where_more_changes(wrong: str) -> None:
    counts = [4, 3, 2]
    alike = falling(counts), falling(counts), np.array([[9, 2]] * 3)
    turns = LoopTurns(3, alike)
    if wrong != "nothing was learned":
        Loop(of_blocks).learn(turns)
    other = falling([3, 3, 1])
    assert turns.go_on(3, (other, other, alike[2])) is (wrong != "nothing was learned")
    changed = {
        "counts of kinds that were alike": (other, falling([3, 2, 1]), alike[2]),
        "a count that stayed": (other, other, np.array([[9, 3]] * 3)),
        "nothing was learned": alike,
    }
    assert not turns.go_on(3, changed[wrong])
