"""Recurrences as head, period and tail: what repeats is written a few times and then continued by arithmetic.

The steps of a recurrent epoch repeat after a period: the same nodes, with rows that move on by constant amounts.
`find_repeat` finds the stretch for which everything that commands are made of says so; `Repeater` then lets the
commands of some periods be written one by one, compares the last two of them, and makes the others by moving rows.

h(t) = W (x(t) + h(t-1)) + b at t = 0..9 takes twenty steps. At t = 1..8, steps 2 to 17, they repeat:

>>> from tests.lowering.examples import loop
>>> find_repeat(loop(last=9).layout, 0, 20)
Repeat(first=2, period=2, num_periods=8)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from nnet3.index import distinct
from nnet3.ir.commands import Command
from nnet3.ir.computation import NnetComputation
from nnet3.ir.declarations import with_operands, with_values
from nnet3.lowering.layout import Layout
from nnet3.lowering.patterns import GatheredNode
from nnet3.lowering.source import NodeKind, Use

_FEWEST_PERIODS = 6
_WRITTEN = 3  # periods that are written one by one before the rest is made of them


class Repeat(NamedTuple):
    """Steps first, ..., first + num_periods * period - 1 are the same `period` steps again and again."""

    first: int
    period: int
    num_periods: int

    @property
    def end(self) -> int:
        return self.first + self.period * self.num_periods

    def positions(self, number: int) -> range:
        """Returns the steps of one period."""
        return range(self.first + number * self.period, self.first + (number + 1) * self.period)


def find_repeat(layout: Layout, start: int, end: int) -> Repeat | None:
    """Returns the longest regular stretch in the middle of steps [start, end); None if it has too few periods."""
    schedule = layout.task.schedule
    node = np.array([step.node for step in schedule.steps[start:end]])
    count = np.array([step.num_rows for step in schedule.steps[start:end]])
    kind = node * (int(count.max()) + 1) + count
    middle = len(kind) // 2
    for period in np.flatnonzero(kind[middle + 1 :] == kind[middle])[:8] + 1:
        repeat = _stretch(kind, middle, int(period))
        if repeat is None:
            continue
        nodes = distinct(node[repeat.first : repeat.first + repeat.period]).tolist()
        repeat = repeat._replace(first=repeat.first + start)
        for _ in range(3):  # the edges may differ in more than their nodes and sizes
            if repeat.num_periods < _FEWEST_PERIODS:
                break
            if all(_is_regular(layout, each, repeat) for each in nodes):
                return repeat
            repeat = Repeat(repeat.first + repeat.period, repeat.period, repeat.num_periods - 2)
    return None


def _stretch(kind: np.ndarray, middle: int, period: int) -> Repeat | None:
    """Returns the stretch round the middle of the list of kinds that repeats; None if it has too few periods."""
    differs = np.flatnonzero(kind[period:] != kind[:-period])
    before, after = differs[differs < middle], differs[differs >= middle]
    first = int(before[-1]) + 1 if len(before) else 0
    end = (int(after[0]) if len(after) else len(kind) - period) + period
    count = (end - first) // period
    return Repeat(first, period, count) if count >= _FEWEST_PERIODS else None


# ---- whether all that commands are made of moves on by constant amounts ----


def _is_regular(layout: Layout, node: int, repeat: Repeat) -> bool:
    schedule = layout.task.schedule
    positions = np.array(schedule.steps_of_node[node])
    inside = np.flatnonzero(
        (positions >= repeat.first) & (positions < repeat.first + repeat.period * repeat.num_periods)
    )
    each = len(inside) // repeat.num_periods
    first = np.array([schedule.steps[positions[i]].first for i in inside])
    end = first[-1] + schedule.steps[positions[inside[-1]]].num_rows
    if not _moves_on(first, each):
        return False
    if node in layout.reading.gathered:
        rows = slice(int(first[0]), int(end))
        if layout.needs.sent[node] is not layout.reading.gathered[node] and not _slots_are_regular(
            layout.reading.gathered[node], inside, each
        ):
            return False
        return _gather_is_regular(layout, node, inside, each, rows, repeat.num_periods)
    return _kernel_is_regular(layout, node, inside, each, first)


def _gather_is_regular(layout: Layout, node: int, inside: np.ndarray, each: int, rows: slice, num_periods: int) -> bool:
    if not _slots_are_regular(layout.needs.sent[node], inside, each):
        return False
    overwrites = layout.writers.slots.get(node, {})
    per_period = (rows.stop - rows.start) // num_periods
    return len(inside) > 0 and all(_repeats(fresh[rows], per_period) for fresh in overwrites.values())


def _slots_are_regular(gathered: GatheredNode, inside: np.ndarray, each: int) -> bool:
    for slot in gathered.slots:
        if not slot.regular[inside].all():
            return False
        first = np.where(slot.count > 0, slot.first - gathered.step_first, 0)
        same = (slot.count, slot.source, first)
        if not all(_repeats(values[inside], each) for values in same):
            return False
        if not _moves_on(slot.source_first[inside], each):
            return False
    return True


def _kernel_is_regular(layout: Layout, node: int, inside: np.ndarray, each: int, first: np.ndarray) -> bool:
    schedule = layout.task.schedule
    if schedule.nodes[node].kind is not NodeKind.KERNEL:
        return False
    if node in layout.needs.live.live and not _liveness_repeats(layout, node, inside, each):
        return False
    for number, operand in enumerate(schedule.nodes[node].operands):
        if operand.use is Use.INDEXED:
            return False
        if operand.use is Use.ROW and not _moves_on(schedule.operand_rows(node, number)[first], each):
            return False
        overwrites = layout.writers.operands.get((node, number))
        is_several = overwrites is not None and len(overwrites) > 1
        if is_several and not _repeats(np.array(overwrites)[inside], each):
            return False
    return True


def _liveness_repeats(layout: Layout, node: int, inside: np.ndarray, each: int) -> bool:
    """True if in each step the same rows are live as in its counterpart one period before."""
    steps = [layout.task.schedule.steps[layout.task.schedule.steps_of_node[node][number]] for number in inside]
    live = [layout.needs.live.rows(node)[step.first : step.first + step.num_rows] for step in steps]
    return all(np.array_equal(one, other) for one, other in zip(live[each:], live[:-each], strict=True))


def _repeats(values: np.ndarray, each: int) -> bool:
    """True if `values` are the same `each` values again and again."""
    return bool((values[each:] == values[:-each]).all())


def _moves_on(values: np.ndarray, each: int) -> bool:
    """True if each period is the one before plus constants."""
    return _repeats(values[each:] - values[:-each], each)


# ---- writing ----


class Repeater:
    """Writes the commands of a list of periods, most of them by moving the rows of an earlier period on."""

    def __init__(
        self,
        computation: NnetComputation,
        write: Callable[[int], Iterable[Command]],
        references: Callable[[int], dict[str, int]],
    ) -> None:
        """`write(position)`: the commands of a step; `references(position)`: its memo and its precomputed entry."""
        self.computation, self._write, self._references = computation, write, references

    def commands(self, periods: Sequence[Sequence[int]]) -> list[Command]:
        """Returns the commands of all periods, each given as the positions of its steps in the order of work."""
        written: list[list[tuple[int, Command]]] = []
        for number, positions in enumerate(periods):
            written.append([(i, command) for i, p in enumerate(positions) for command in self._write(p)])
            rest = periods[number + 1 :]
            if number + 1 >= _WRITTEN and len(rest) > 1:
                shifts = self._shifts(written[-2], written[-1])
                before = self._shifts(written[-3], written[-2])
                if shifts is not None and before is not None and np.array_equal(shifts, before):
                    done = [command for period in written for _, command in period]
                    return done + self._moved(written[-1], shifts, rest)
        return [command for period in written for _, command in period]

    def _shifts(self, before: list[tuple[int, Command]], after: list[tuple[int, Command]]) -> np.ndarray | None:
        """Returns how many rows each operand of `after` lies beyond its counterpart; None if anything else differs."""
        if len(before) != len(after):
            return None
        for (i, one), (j, other) in zip(before, after, strict=True):
            if i != j or type(one) is not type(other) or one.form.table_fields or not _alike(one, other):
                return None
        blocks = self._blocks(after) - self._blocks(before)
        moved = blocks[:, 1].copy()
        blocks[:, 1] = 0
        return None if blocks.any() else moved

    def _blocks(self, commands: list[tuple[int, Command]]) -> np.ndarray:
        numbers = [number for _, command in commands for number in command.form.operands(command)]
        return np.array([self.computation.submatrices[number] for number in numbers], np.int64).reshape(-1, 6)

    def _moved(
        self, template: list[tuple[int, Command]], shifts: np.ndarray, periods: Sequence[Sequence[int]]
    ) -> list[Command]:
        if not template:
            return []
        own = np.array([number for _, command in template for number in command.form.operands(command)], np.int64)
        operands, place = np.unique(np.stack([own, shifts]), axis=1, return_inverse=True)
        moves = operands[1] != 0
        blocks = np.array([self.computation.submatrices[number] for number in operands[0][moves].tolist()], np.int64)
        rounds = np.arange(1, len(periods) + 1)
        all_blocks = np.repeat(blocks.reshape(1, -1, 6), len(periods), axis=0)
        all_blocks[:, :, 1] += rounds[:, np.newaxis] * operands[1][moves]
        begin = self.computation.add_submatrices(all_blocks.reshape(-1, 6))
        numbers = np.repeat(operands[0][np.newaxis], len(periods), axis=0)
        numbers[:, moves] = begin + np.arange(all_blocks.shape[0] * all_blocks.shape[1]).reshape(len(periods), -1)
        chosen = numbers[:, place.reshape(-1)].tolist()
        sizes = [len(command.form.operands(command)) for _, command in template]
        ends = np.cumsum(sizes).tolist()
        numbered = [[name for name, _ in command.form.references(command)] for _, command in template]
        result: list[Command] = []
        for positions, row in zip(periods, chosen, strict=True):
            for (i, command), size, end, renewed in zip(template, sizes, ends, numbered, strict=True):
                moved = with_operands(command, row[end - size : end])
                if renewed:
                    known = self._references(positions[i])
                    moved = with_values(moved, **{name: known[name] for name in renewed})
                result.append(moved)
        return result


def _alike(one: Command, other: Command) -> bool:
    """True if two commands of a class differ in sub-matrices, memos and precomputed entries only."""
    form = one.form
    references = form.references(one)
    changing = {*form.operand_names, *(name for name, _ in references)}
    return references == form.references(other) and all(
        getattr(one, name) == getattr(other, name) for name in form.names if name not in changing
    )
