"""Derivatives sent back by users: from gathered nodes to the sources of the rows, from kernels to the operands.

Kernels send to all rows read, unless some rows have no derivatives (see `live_rows`). With derivatives at t = 2, 3
only, the last two of the four steps of h(t) = W (x(t) + h(t-1)) + b send, each to the one row that the step read:

>>> from tests.lowering.examples import loop
>>> each = loop(deriv_times=(2, 3))
>>> found = Contributions(each.schedule, each.writers.storage)
>>> positions = np.array(each.schedule.steps_of_node[2])
>>> [sent] = operand_contributions(each.schedule, each.needs, found, 2, positions)
>>> sending = sent.sending
>>> sending.rows.tolist(), sending.steps.tolist(), sending.num_steps
([2, 3], [2, 3], 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnet3.base.index import distinct
from nnet3.engine.lowering.contributions import Contributions
from nnet3.engine.lowering.needs import BackwardNeeds, LiveRows
from nnet3.engine.lowering.reading import SlotPattern
from nnet3.engine.lowering.schedule import Schedule, Step
from nnet3.engine.lowering.source import Use

_AFTER_OPERANDS = 1 << 20  # the term of an update for several steps: it comes after what the last step sends


@dataclass(frozen=True, eq=False)
class Sending:
    """The rows of an operand to which steps send, step by step.

    `rows` (rows sent,): positions among the rows read by the steps. `steps`: the steps that send anything, out of
    `num_steps`; `step_first`: the first position in `rows` of every sending step. `can_overwrite` (rows sent,): False
    for rows sent by way of a separate matrix.
    """

    rows: np.ndarray
    steps: np.ndarray
    step_first: np.ndarray
    can_overwrite: np.ndarray
    num_steps: int

    def by_step(self, of_row: np.ndarray) -> list[bool]:
        """Returns the value of each step's rows, equal within a step; False for a step that sends nothing."""
        result = np.zeros(self.num_steps, bool)
        result[self.steps] = of_row[self.step_first]
        return result.tolist()


class SentSlot(NamedTuple):
    """The contribution (by number) sent by rows of a gathered node through a slot."""

    node: int
    slot: int
    rows: np.ndarray
    contribution: int


class SentOperand(NamedTuple):
    """The contribution (by number) sent by the steps of a kernel node to an operand."""

    node: int
    operand: int
    contribution: int
    sending: Sending


def slot_contributions(
    schedule: Schedule, needs: BackwardNeeds, contributions: Contributions, number: int, positions: np.ndarray
) -> list[SentSlot]:
    """Add what a gathered node sends, slot by slot."""
    gathered, needed = needs.sent[number], needs.needed
    found = []
    slot_number = 0
    for _, _, slots in gathered.parts:
        regular = np.ones(len(positions), bool)
        for slot in slots:
            if needed[slot.sources].any():
                regular &= slot.regular
        for step in np.flatnonzero(~regular).tolist():
            of_step = slice(gathered.step_first[step], gathered.step_first[step] + gathered.step_count[step])
            for source, stretch in _stretches(slots, of_step):
                if needed[source]:
                    contributions.add(source, stretch, positions[step], slot_number, can_overwrite=False)
        for slot in slots:
            for source in slot.sources:
                if not needed[source]:
                    continue
                bound = schedule.nodes[contributions.storage[source].root].adds_to_memory
                used = slot.used & (slot.source_node == source)
                begin = int(gathered.step_first[0])  # rows before belong to no step
                rows = begin + np.flatnonzero(used[begin:] & np.repeat(regular, gathered.step_count))
                where = np.repeat(positions, gathered.step_count)[rows - begin]
                contribution = contributions.add(source, slot.source_row[rows], where, slot_number, not bound)
                found.append(SentSlot(number, slot_number, rows, contribution))
            slot_number += 1
    return found


def _stretches(slots: list[SlotPattern], rows: slice) -> list[tuple[int, np.ndarray]]:
    """Returns the sources of `rows`, and for each source the rows from the first to the last row taken.

    Commands with tables touch all rows of such a stretch, and one command may serve several slots.
    """
    sources = np.concatenate([slot.source_node[rows][slot.used[rows]] for slot in slots])
    taken = np.concatenate([slot.source_row[rows][slot.used[rows]] for slot in slots])
    found = []
    for source in distinct(sources).tolist():
        here = taken[sources == source]
        found.append((source, np.arange(here.min(), here.max() + 1)))
    return found


def operand_contributions(
    schedule: Schedule, needs: BackwardNeeds, contributions: Contributions, number: int, positions: np.ndarray
) -> list[SentOperand]:
    """Add what a kernel node sends, operand by operand."""
    rows_of_steps = [schedule.steps[position].num_rows for position in positions.tolist()]
    together = next((nodes for nodes in needs.updates.values() if number in nodes), None)
    found = []
    for index, operand in enumerate(schedule.nodes[number].operands):
        if not needs.needed[operand.node]:
            continue
        where, term, counts = positions, index, rows_of_steps
        if operand.use is Use.ROW:
            rows = schedule.operand_rows(number, index)[schedule.num_given[number] :]
        elif operand.use is Use.INDEXED:
            reads = [schedule.steps[position - 1] for position in positions.tolist()]
            rows = np.concatenate([np.arange(step.first, step.first + step.num_rows) for step in reads])
            counts = [step.num_rows for step in reads]
        elif operand.use is Use.ALL_SAMPLES:
            rows = np.arange(schedule.num_rows(operand.node))
            counts = [len(rows)]
        elif together is not None:
            if number != together[0]:
                continue  # the update of them all is one contribution
            last = min(schedule.steps_of_node[node][0] for node in together)
            rows, counts, where, term = np.zeros(1, int), [1], np.array([last]), _AFTER_OPERANDS + index
        else:
            rows, counts = np.zeros(len(positions), int), [1] * len(positions)
        sending = _sending(counts, [(0, count, True) for count in counts])
        if needs.live.live and (together is None or operand.use is not Use.WHOLE):
            steps = [schedule.steps[position] for position in positions.tolist()]
            sending = _live_rows_sent(needs.live, steps, operand.node, rows, counts)
        where = np.repeat(where, counts)[sending.rows]
        bound = schedule.nodes[contributions.storage[operand.node].root].adds_to_memory
        may = sending.can_overwrite & (not bound)
        contribution = contributions.add(
            operand.node, rows[sending.rows], where, term, may, step_first=sending.step_first
        )
        found.append(SentOperand(number, index, contribution, sending))
    return found


def _live_rows_sent(
    live: LiveRows, steps: Sequence[Step], operand: int, rows: np.ndarray, counts: Sequence[int]
) -> Sending:
    """Returns the sending of a kernel node's steps to live rows of an operand, of `rows` read, `counts` a step."""
    begins = np.concatenate([[0], np.cumsum(counts)]).tolist()
    sent = []
    for step, begin, count in zip(steps, begins, counts, strict=False):
        worked = live.worked_on(step)
        if worked is None:
            sent.append((0, 0, True))
        elif live.is_cut(step.node):
            is_whole = count != step.num_rows  # a value without samples
            sent.append((0, count, True) if is_whole else (worked.first - step.first, worked.num_rows, True))
        else:
            taken = Step(operand, int(rows[begin]), count)
            hull = live.hull(taken) or Step(operand, taken.first, 0)
            sent.append((hull.first - taken.first, hull.num_rows, live.is_whole(taken)))
    return _sending(counts, sent)


def _sending(counts: Sequence[int], sent: Sequence[tuple[int, int, bool]]) -> Sending:
    """Returns a sending. `sent`: of each step the first sent row, the number of rows, and if they can overwrite."""
    begins = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    first, num, may = (np.array(each) for each in zip(*sent, strict=True))
    step_first = np.cumsum(num) - num
    within = np.arange(int(num.sum())) - np.repeat(step_first, num)
    steps = np.flatnonzero(num)
    return Sending(np.repeat(begins + first, num) + within, steps, step_first[steps], np.repeat(may, num), len(counts))
