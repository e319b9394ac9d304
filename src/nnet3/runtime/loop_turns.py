"""LoopTurns: how the operations of a loop change from turn to turn, learned by binding its calls in a few turns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from nnet3.native.operations import ADDRESSES, FLOAT_BYTES, NUM_MATRICES, SIZES, Operations, Row

#: Of one operation, by matrix: floats a turn, floats a row of a table, and that table; then the table of each size.
Moves: TypeAlias = tuple[int, ...]
_MOST_LEARNED = 256  # loops
#: The moves of what stays; -1 is no table.
STAYS: Moves = (0,) * (2 * NUM_MATRICES) + (-1,) * (NUM_MATRICES + 3)
#: An operation as it is in the first turn, with the blocks of the samples, and how it moves.
Moving: TypeAlias = tuple[Row, Moves]


class Sample(NamedTuple):
    """A turn in which calls are bound, and the rows [first, first + count) of each kind of uneven view, (kinds, 2)."""

    turn: int
    blocks: np.ndarray

    def uneven(self) -> list[np.ndarray]:
        """The blocks as in `Plan.uneven`, in all turns up to this one."""
        return [np.broadcast_to(block, (self.turn + 1, 2)) for block in self.blocks]


class Learned(NamedTuple):
    """The moves of each call's operations in a loop, None without; and which kinds of uneven views changed in what.

    `kinds` begin at other rows in other turns; those of each of `counted` have equally many rows, which change.
    """

    kinds: list[int]
    counted: list[list[int]]
    moves: list[list[Moves] | None]


class LoopTurns:
    """A loop's turns, learned from samples: the first, the second and the last; if it is uneven, with made-up blocks.

    Of those, all kinds have as many rows as they have at most. Then in some samples one thing differs: where blocks
    begin, or how many rows they have. So an operation is known if its addresses move by equal amounts from turn to turn
    and with the blocks of one kind, and if its sizes stay, or are numbers of rows. If a loop of the same `key` was
    learned before with other blocks, how operations move is taken from there, and tried.
    """

    def __init__(self, num_turns: int, uneven: Sequence[np.ndarray] = (), key: bytes = b"") -> None:
        """`uneven`: that of the plan."""
        self.num_turns, self._known = num_turns, _learned(key) if key else []
        self._blocks = np.array([table[table[:, 1].argmax()] for table in uneven], np.int64).reshape(-1, 2)
        #: Blocks (turns, 2), whose beginnings are counted from those of the samples.
        self._used, self._kinds, self._counted = list[int](), list[int](), list[list[int]]()
        self._origins = self._blocks * [1, 0]
        self.tables = [_counted_from(one, table) for table, one in zip(uneven, self._origins, strict=True)]
        self._turns = np.array(sorted({0, min(1, num_turns - 1), num_turns - 1}))

    def learn(
        self, operations_in: Callable[[Sample], Sequence[Operations | None]], used: Callable[[], Collection[int]]
    ) -> list[list[Moving] | None]:
        """Returns the operations of each call, and how they move.

        `operations_in` gives those of each call in a sample, `used` the kinds of uneven views that this sample had.
        None for calls that native code does not take in all samples, or that change in other ways.
        """
        first = operations_in(Sample(0, self._blocks))
        self._used = sorted(used())
        if not self._look_at(self._used):
            return [None] * len(first)
        moves = self._known[0].moves if self._known and self._is_as(self._known[0], first, operations_in) else None
        if moves is None:
            samples = [Sample(turn, self._blocks) for turn in self._turns[1:].tolist()] + self._shifted + self._fewer
            moves = self._found(list(zip(first, *map(operations_in, samples), strict=True)))
            # Few rows may be worked on in another way: what is not known of them may be known of many.
            if [each is None for each in moves] == [each is None for each in first]:
                self._known[:] = [Learned(self._kinds, self._counted, moves)]
        return [
            None if operations is None or each is None else list(zip(operations, each, strict=True))
            for operations, each in zip(first, moves, strict=True)
        ]

    def go_on(self, num_turns: int, uneven: Sequence[np.ndarray]) -> bool:
        """Take over so many turns with other rows; returns False if more changes in them than what was learned of.

        What does not move unevenly must be the same.
        """
        counted = set(chain.from_iterable(self._counted))
        if not self._used:
            return False
        for kind in self._used:
            first, count = self._blocks[kind].tolist()
            if kind not in self._kinds and (uneven[kind][:, 0] != first).any():
                return False
            if kind not in counted and (uneven[kind][:, 1] != count).any():
                return False
        for kind, *others in self._counted:
            if any((uneven[other][:, 1] != uneven[kind][:, 1]).any() for other in others):
                return False
        self.num_turns = num_turns
        for kind in self._used:
            self.tables[kind] = _counted_from(self._origins[kind], uneven[kind])
        return True

    def _look_at(self, used: Sequence[int]) -> bool:
        """Make up samples in which the blocks of the kinds that are used differ; returns False if there are none.

        All blocks lie among rows that some turn has.
        """
        self._kinds = [kind for kind in used if self.tables[kind][:, 0].any()]
        most = np.arange(1, len(self._kinds) + 1)
        before = [-self.tables[kind][:, 0].min() for kind in self._kinds]
        after = [self.tables[kind].sum(1).max() - self._blocks[kind, 1] for kind in self._kinds]
        signs = np.where(np.array(after) >= most, 1, -1) if self._kinds else np.zeros(0, np.int64)
        #: One row away; then one row in the first kind, two in the second, and so on.
        self._shifts = np.stack([signs, signs * most])
        self._shifted, self._fewer = list[Sample](), list[Sample]()
        for each in self._shifts if self._kinds else ():
            self._shifted.append(Sample(0, self._blocks.copy()))
            self._shifted[-1].blocks[self._kinds, 0] += each
        alike: dict[bytes, list[int]] = {}
        for kind in used:
            if np.ptp(self.tables[kind][:, 1]):
                alike.setdefault(self.tables[kind][:, 1].tobytes(), []).append(kind)
        #: The kinds that have equally many rows in every turn, more than one row in some.
        self._counted = list(alike.values())
        for kinds in self._counted:
            self._fewer.append(Sample(0, self._blocks.copy()))
            self._fewer[-1].blocks[kinds, 1] -= 1
        return not self._kinds or bool((np.maximum(before, after) >= most).all())

    def _is_as(
        self,
        before: Learned,
        first: Sequence[Operations | None],
        operations_in: Callable[[Sample], Sequence[Operations | None]],
    ) -> bool:
        """True if the same kinds change as before, and a sample is as expected in which all of them do."""
        all_moves = np.array([moves for each in before.moves if each is not None for moves in each], np.int64)
        is_alike = (self._kinds, self._counted) == (before.kinds, before.counted)
        is_alike &= [each is None for each in first] == [each is None for each in before.moves]
        if not is_alike or not self._kinds or not len(all_moves):
            return False
        together = self._shifted[1].blocks.copy()
        for sample in self._fewer:
            together[:, 1] += sample.blocks[:, 1] - self._blocks[:, 1]
        other = operations_in(Sample(0, together))
        known = [number for number, moves in enumerate(before.moves) if moves is not None]
        one, two = ([found[number] or () for number in known] for found in (first, other))
        if not list(map(len, one)) == list(map(len, two)) == [len(before.moves[number] or ()) for number in known]:
            return False
        rows = np.array([list(chain.from_iterable(one)), list(chain.from_iterable(two))], np.int64)
        of_turn, of_row, table, counted = np.split(all_moves, [n * NUM_MATRICES for n in (1, 2, 3)], axis=1)
        shifts = np.zeros(len(self._blocks) + 1, np.int64)  # the last one for no table
        shifts[self._kinds] = self._shifts[1]
        expected = np.zeros_like(rows[0])
        expected[:, ADDRESSES] = of_row * shifts[table] * FLOAT_BYTES
        expected[:, SIZES] = np.where(counted < 0, 0, -1)
        return not of_turn.any() and np.array_equal(rows[1] - rows[0], expected)

    def _found(self, calls: Sequence[Sequence[Operations | None]]) -> list[list[Moves] | None]:
        """Returns the moves of each call's operations, which are given in all samples."""
        rows = [_by_operation(call) for call in calls]
        numbers = np.array([row for each in rows for row in each], np.int64)
        if not len(numbers):
            return [None] * len(calls)
        is_known, moves = self._moves(numbers)
        ends = np.cumsum([0, *map(len, rows)]).tolist()
        return [
            list(map(tuple, moves[start:end].tolist())) if end > start and is_known[start:end].all() else None
            for start, end in pairwise(ends)
        ]

    def _moves(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns which of the operations (operations, samples, numbers) are known, (operations,), and their moves."""
        change = numbers - numbers[:, :1]
        addresses, sizes = change[:, :, ADDRESSES].copy(), change[:, :, SIZES].copy()
        change[:, :, ADDRESSES] = change[:, :, SIZES] = 0
        num_turns, num_others = len(self._turns), len(self._turns) + len(self._shifted)
        in_turns, shifted, with_fewer = np.split(addresses, [num_turns, num_others], axis=1)
        of_turn = in_turns[:, min(1, num_turns - 1)]
        wrong = change.any((1, 2)) | with_fewer.any((1, 2)) | sizes[:, :num_others].any((1, 2))
        wrong |= (in_turns != of_turn[:, None] * self._turns[:, None]).any((1, 2))
        of_row, table = np.zeros_like(of_turn), np.full_like(of_turn, -1)
        if self._shifted:
            once, many = shifted[:, 0], shifted[:, 1]
            place = np.where(once, many // np.where(once, once, 1), 1) - 1
            wrong |= ((once * (place + 1) != many) | (place < 0) | (place >= len(self._kinds))).any(1)
            place = place.clip(0, len(self._kinds) - 1)
            of_row, table = once * self._shifts[0][place], np.where(once, np.array(self._kinds)[place], -1)
        fewer, counted = sizes[:, num_others:], np.full_like(sizes[:, 0], -1)
        wrong |= ((fewer < -1) | (fewer > 0)).any((1, 2)) | (fewer.sum(1) < -1).any(1)
        for each, kinds in zip(fewer.transpose(1, 0, 2), self._counted, strict=True):
            counted = np.where(each, kinds[0], counted)
        return ~wrong, np.concatenate([of_turn // FLOAT_BYTES, of_row // FLOAT_BYTES, table, counted], axis=1)


def _counted_from(origin: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Returns the blocks of a table, whose first rows are counted from here, as native code reads them."""
    return np.ascontiguousarray(table - origin, np.int64)


@lru_cache(_MOST_LEARNED)
def _learned(key: bytes) -> list[Learned]:
    """Returns the list in which there is what was learned last of the loops with this key, if something was."""
    return []


def _by_operation(call: Sequence[Operations | None]) -> list[tuple[Row, ...]]:
    """Each operation of a call in all samples; nothing if a sample has none, or others have more."""
    found = [each for each in call if each is not None]
    is_known = len(found) == len(call) and len(set(map(len, found))) == 1
    return list(zip(*found, strict=True)) if is_known else []
