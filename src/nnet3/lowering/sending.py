"""Which rows of its operands a kernel sends derivatives to: all that it reads, or those that live rows leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnet3.lowering.live_rows import LiveRows
from nnet3.lowering.schedule import Step


@dataclass(frozen=True, eq=False)
class Sending:
    """Of the rows of an operand that steps read, one step after the other, those to which they send.

    `rows` (rows sent,) are positions among the rows read; `steps` the steps that send anything, of `num_steps`, and
    `step_first` where in `rows` they begin; `can_overwrite` (rows sent,) is false for what is sent by way of a matrix
    of its own.
    """

    rows: np.ndarray
    steps: np.ndarray
    step_first: np.ndarray
    can_overwrite: np.ndarray
    num_steps: int

    def by_step(self, of_row: np.ndarray) -> list[bool]:
        """From an answer for each row that is sent, equal within a step, one for each step; False if it sends none."""
        result = np.zeros(self.num_steps, bool)
        result[self.steps] = of_row[self.step_first]
        return result.tolist()


def all_rows(counts: Sequence[int]) -> Sending:
    """Steps that read so many rows each send to all of them."""
    return _sending(counts, [(0, count, True) for count in counts])


def live_rows_sent(
    live: LiveRows, steps: Sequence[Step], operand: int, rows: np.ndarray, counts: Sequence[int]
) -> Sending:
    """What steps of a kernel node send to an operand of which they read `rows`, so many each."""
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
    """`sent`: of each step's rows, the first that is sent, how many are, whether they can be overwritten."""
    begins = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    first, num, may = (np.array(each) for each in zip(*sent, strict=True))
    step_first = np.cumsum(num) - num
    within = np.arange(int(num.sum())) - np.repeat(step_first, num)
    steps = np.flatnonzero(num)
    return Sending(np.repeat(begins + first, num) + within, steps, step_first[steps], np.repeat(may, num), len(counts))
