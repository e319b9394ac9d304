"""The rows that each chunk of an endless request takes from earlier chunks.

A request without end is given in chunks: a chunk brings new rows of inputs and asks for the next rows of outputs. A row
once computed keeps its value, even if later inputs would have given a different value. A chunk is swept with all rows
computed before as given rows. Chunks end up repeating one another, moved on in time.

y(t) = W [x(t-1), x(t)] + b in chunks of two frames: the second chunk takes x(1) from the first.

>>> from tests.lowering.examples import chunks, splice
>>> carried = find_carried(splice().source, chunks(2, first=-1), 2)
>>> carried.num_head, carried.num_chunks
(1, 2)
>>> carried.before(2)
{0: array([[0, 1, 0]], dtype=int32)}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.index import IndexTable, T, X, distinct, indexes_at
from nnet3.engine.ir.objects import present
from nnet3.engine.lowering.computable import Computability
from nnet3.engine.lowering.explain import complain_not_computable
from nnet3.engine.lowering.needed import needed_rows
from nnet3.engine.lowering.slot_table import Mask, SlotTable
from nnet3.engine.lowering.source import GraphRules, LoweringRequest, NodeKind, RequestedRows
from nnet3.engine.lowering.sweeps import Sweeps
from nnet3.errors import RequestError

MOST_CHUNKS = 100

_SHIFT = 2**32  # a row is one number, t * 2^32 + x
Rows = Mapping[int, npt.NDArray[np.int64]]  # of each node, ascending
_NONE = np.empty(0, np.int64)


class ChunkRows(NamedTuple):
    """The given input rows and the wanted output rows of a chunk, of sequence 0, by node."""

    given: Mapping[int, IndexTable]
    wanted: Mapping[int, IndexTable]


@dataclass(frozen=True, eq=False)
class Carried:
    """Chunks 1 to `num_chunks`; all chunks after the first `num_head` come again and again, moved on by their frames.

    `frames`: of a chunk. `period`: frames after which the rules repeat. `reach`: chunks after the first look no further
    back than `reach`, counted from the chunk's first frame, except at rows at constant times, up to `newest` (None
    without such rows). Rows of `fixed` are the known rows at constant times; they do not move on.
    """

    num_head: int
    num_chunks: int
    frames: int
    period: int
    reach: int
    newest: int | None
    fixed: Rows
    _before: Sequence[Rows]

    def before(self, number: int, earlier: int = 0) -> dict[int, IndexTable]:
        """Returns the rows that chunks from `number` on, at most `num_chunks` + 1, take from earlier chunks.

        Rows are moved to times `earlier` by so many frames, except rows at constant times.
        """
        rows = self._before[number - 1]
        return {
            node: _table(_moved(rows[node], -earlier * _SHIFT, self.fixed.get(node, _NONE))) for node in sorted(rows)
        }

    def earlier(self, number: int) -> int:
        """Returns by how many frames a chunk may be moved so that equal chunks have equal times."""
        start, base = (number - 1) * self.frames, 0
        if self.newest is not None:
            base = -(-(self.newest + self.reach + 1) // self.period) * self.period
        return (start - base) // self.period * self.period if start >= base else 0


def find_carried(source: GraphRules, chunk: Callable[[int], ChunkRows], frames: int) -> Carried:
    """Returns the rows that chunks carry on; `chunk(k)` begins at t = (k - 1) * frames, k = 1, 2, ...

    Raises NotComputableError for outputs out of reach, RequestError if the chunks do not come to repeat one another
    within MOST_CHUNKS.

    Two chunks a < b are followed by equal chunks if, moved on, equal rows have been computed before them as far back as
    any chunk from a + 1 to b looks. For chunk a + 1 then equals b + 1, and so on up to b, equal to 2 b - a, where the
    cycle begins again.
    """
    period = source.period
    if period is None:
        raise RequestError("a component does not say after what time its rules are the same again (rules_period)")
    history = _History(source, frames)
    while history.num_chunks < MOST_CHUNKS:
        history.add(chunk(history.num_chunks + 1))
        if history.reach > MOST_CHUNKS * frames:
            break
        head = history.repeated(period)
        if head is not None:
            numbers = range(1, history.num_chunks + 1)
            fixed = reduce(_union, map(history.fixed_rows, numbers))
            before = history.before(head, fixed)
            return Carried(head, len(numbers), frames, period, history.reach, history.newest, fixed, before)
    raise RequestError(history.complaint())


@dataclass(frozen=True, eq=False)
class _Swept:
    """A chunk: `taken` are the rows taken from earlier chunks, `known` all rows known after the chunk.

    `fixed`: the rows at constant times that the chunk looks at, known or not.
    """

    taken: Rows
    known: Rows
    fixed: Rows


@dataclass(eq=False)
class _History:
    """The chunks so far. `reach`, `farthest`: how far back chunks after the first look, and at which node."""

    source: GraphRules
    frames: int
    chunks: list[_Swept] = field(default_factory=list)
    reach: int = 0
    farthest: int = 0
    _states: dict[tuple[int, int], bytes] = field(default_factory=dict)

    @property
    def num_chunks(self) -> int:
        return len(self.chunks)

    def start(self, number: int) -> int:
        """Returns the first time of a chunk."""
        return (number - 1) * self.frames

    def add(self, chunk: ChunkRows) -> None:
        """Sweeps the next chunk."""
        old = self.chunks[-1].known if self.chunks else {}
        given = _union(old, {node: _keys(table) for node, table in chunk.given.items()})
        sweeps = self._sweep(given, chunk.wanted)
        kept = (NodeKind.PROVIDED, NodeKind.KERNEL)
        every = _of_masks(sweeps, sweeps.need)
        needed = {node: rows for node, rows in every.items() if self.source.nodes[node].kind in kept}
        taken = {node: np.intersect1d(rows, old[node]) for node, rows in needed.items() if node in old}
        fixed, moving = self._looked_at(sweeps)
        if self.chunks:
            for node, rows in moving.items():
                back = self.start(self.num_chunks + 1) - int(_times(rows[:1])[0]) if len(rows) else 0
                if back > self.reach:
                    self.reach, self.farthest = back, node
        self.chunks.append(_Swept(taken, _union(given, needed), fixed))

    def _sweep(self, given: Rows, wanted: Mapping[int, IndexTable]) -> Sweeps:
        names = self.source.nodes
        inputs = [RequestedRows(node, names[node].name, _table(rows)) for node, rows in given.items()]
        outputs = [RequestedRows(node, names[node].name, table) for node, table in wanted.items()]
        sweeps = Sweeps(self.source, LoweringRequest(inputs, outputs))
        sweeps.run()
        if not all(rows.all() for rows in sweeps.outputs_computable()):
            complain_not_computable(sweeps)
        return sweeps

    def _looked_at(self, sweeps: Sweeps) -> tuple[Rows, Rows]:
        """Returns the rows on which the sweeps depend by slots fixed to one time, and the rows by all further slots.

        A needed row depends on the slots in use, and on the missing slots being missing. A missing row depends on one
        row that it lacks and cannot do without, or if no row alone is to blame, on all rows that it lacks. Further
        computable rows make no difference.
        """
        tables, found = sweeps.ground.tables, sweeps.computability
        marks: list[Mask | None] = [None] * len(tables)
        is_fixed: dict[int, Mask] = {}
        for node, table in enumerate(tables):
            if table is None or table.num_slots == 0:
                continue
            used, known = found.used[node], present(found.known[node])
            missing = ~found.available(node, table)
            is_known = known[..., np.newaxis]
            reasons = (missing & is_known) | (is_known if used is None else used)
            marks[node] = reasons | _to_blame(found, node, table, missing & ~is_known)
            if node in self._fixing:
                is_fixed[node] = self._is_fixed(node, table.grid.table())
        every = needed_rows(sweeps.ground, marks, sweeps.asked)
        if not is_fixed:
            return {}, _of_masks(sweeps, every)
        fixed: Rows = {}
        for node, mask in is_fixed.items():
            needed, mark, grid = present(every[node]), present(marks[node]), sweeps.ground.domain.grid(node)
            sources, indexes = self.source.slots(node, grid.table())
            chosen = mask & needed.reshape(-1, 1) & mark.reshape(mask.shape)
            seen, rows = sources[chosen], indexes[chosen]
            fixed = _union(fixed, {each: _keys(rows[seen == each]) for each in distinct(seen).tolist()})
            marks[node] = mark & ~mask.reshape(mark.shape)
        moving = _of_masks(sweeps, needed_rows(sweeps.ground, marks, sweeps.asked))
        others = {node: np.setdiff1d(rows, moving[node]) for node, rows in _of_masks(sweeps, every).items()}
        return _union(fixed, others), moving

    @cached_property
    def _fixing(self) -> list[int]:
        """The nodes with a slot that looks at one time for all rows."""
        times = indexes_at(np.arange(2 * (self.source.period or 1)))
        gathered = [node for node, each in enumerate(self.source.nodes) if each.kind is NodeKind.GATHERED]
        return [node for node in gathered if self._is_fixed(node, times).any()]

    def _is_fixed(self, node: int, rows: IndexTable) -> Mask:
        later = rows.copy()
        later[:, T] += self.source.period or 1
        one, other = (self.source.slots(node, table)[1] for table in (rows, later))
        return np.asarray(one[:, :, T] == other[:, :, T])  # (rows, slots)

    # ---- repetition ----

    def repeated(self, period: int) -> int | None:
        """Returns the first chunk whose future is the last chunk's future, moved on; None for none."""
        last = self.num_chunks
        fixed, newest = self.fixed_rows(last), self.newest
        for number in range(1, last):
            if (last - number) * self.frames % period:
                continue
            if newest is not None and newest >= self.start(number + 1) - self.reach:
                continue
            if any(not _equal(self.fixed_rows(k), fixed) for k in range(number + 1, last)):
                continue
            if self._state(number) == self._state(last):
                return number
        return None

    @property
    def newest(self) -> int | None:
        """The latest constant time that a chunk looks at, whether that row is known or not."""
        tables = [rows for chunk in self.chunks for rows in chunk.fixed.values() if len(rows)]
        return max((int(_times(rows[-1:])[0]) for rows in tables), default=None)

    def fixed_rows(self, number: int) -> Rows:
        """Returns the rows at constant times seen by a chunk and known after it."""
        known = self.chunks[number - 1].known
        common = {
            node: np.intersect1d(rows, known.get(node, _NONE)) for node, rows in self.chunks[number - 1].fixed.items()
        }
        return {node: rows for node, rows in common.items() if len(rows)}

    def _state(self, number: int) -> bytes:
        """Returns what is known after a chunk as far as later ones look back, equal if it is equal but for time."""
        key = number, self.reach
        if key not in self._states:
            first = self.start(number + 1)
            parts = []
            for node, rows in sorted(self.chunks[number - 1].known.items()):
                recent = rows[np.searchsorted(rows, (first - self.reach) * _SHIFT - _SHIFT // 2) :]
                parts.append(b"%d %d:" % (node, len(recent)) + (recent - first * _SHIFT).tobytes())
            self._states[key] = b"".join(parts)
        return self._states[key]

    def before(self, head: int, fixed: Rows) -> list[Rows]:
        """Returns, by chunk, the rows taken by it and later chunks from earlier ones; last, the rows after all."""
        moved = (self.num_chunks - head) * self.frames * _SHIFT
        later: Rows = {}
        while True:
            before = self._carried_back(later)
            again = {node: _moved(rows, moved, fixed.get(node, _NONE)) for node, rows in before[head].items()}
            if _equal(again, later):
                return [*before, later]
            later = again

    def _carried_back(self, later: Rows) -> list[Rows]:
        """Returns the rows before each chunk, if the rows after the last chunk are `later`."""
        before: list[Rows] = []
        for number in range(self.num_chunks, 0, -1):
            known = self.chunks[number - 2].known if number > 1 else {}
            wanted = _union(later, self.chunks[number - 1].taken)
            later = {
                node: found
                for node, rows in wanted.items()
                if len(found := np.intersect1d(rows, known.get(node, _NONE)))
            }
            before.append(later)
        return before[::-1]

    def complaint(self) -> str:
        """Says why the chunks do not repeat one another."""
        name = self.source.nodes[self.farthest].name
        return (
            f"chunks of {self.frames} frames do not come to repeat each other within {MOST_CHUNKS}, as chunk "
            f"{self.num_chunks} looks {self.reach} frames back, at node '{name}': use longer chunks, or a network that "
            f"looks back by less than {MOST_CHUNKS * self.frames} frames"
        )


def _keys(table: IndexTable) -> npt.NDArray[np.int64]:
    return np.unique(table[:, T].astype(np.int64) * _SHIFT + table[:, X])


def _table(rows: npt.NDArray[np.int64]) -> IndexTable:
    table = np.zeros((len(rows), 3), np.int32)
    table[:, T] = _times(rows)
    table[:, X] = rows - _times(rows) * _SHIFT
    return table


def _times(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return (rows + _SHIFT // 2) // _SHIFT  # x may be negative


def _of_masks(sweeps: Sweeps, masks: Sequence[Mask | None]) -> dict[int, npt.NDArray[np.int64]]:
    """Returns the marked rows of each node with samples: values without samples have no times."""
    grid, nodes = sweeps.ground.domain.grid, sweeps.source.nodes
    return {
        node: _keys(grid(node).table()[mask.reshape(-1)])
        for node, mask in enumerate(masks)
        if mask is not None and nodes[node].num_rows is None
    }


def _to_blame(found: Computability, node: int, table: SlotTable, lacking: Mask) -> Mask:
    """Returns of the slots that missing rows lack (times, xs, classes, slots) the first that alone makes a row missing.

    Rows without such a slot keep all slots. It is no matter if two rows blame each other: neither can come first.
    """
    if table.num_slots == 1 or not lacking.any():
        return lacking
    flat = lacking.reshape(-1, table.num_slots)
    alone = flat.copy()
    if table.asks:
        for slot in range(table.num_slots):
            others = np.ones_like(flat)
            others[:, slot] = False
            alone[:, slot] &= ~found.rule(node, table, others)[0]
    first = alone & (np.cumsum(alone, axis=1) == 1)
    return np.where(alone.any(axis=1, keepdims=True), first, flat).reshape(lacking.shape)


def _union(one: Rows, other: Rows) -> dict[int, npt.NDArray[np.int64]]:
    result = dict(one)
    for node, rows in other.items():
        if len(rows):
            result[node] = np.union1d(result[node], rows) if node in result else rows
    return result


def _equal(one: Rows, other: Rows) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(rows, other[node]) for node, rows in one.items())


def _moved(rows: npt.NDArray[np.int64], by: int, fixed: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.sort(np.where(np.isin(rows, fixed), rows, rows + by))
