"""Phones of utterances with their order and times, from alignments or lattices of phones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from nnet3.base.index import entries_of_rows
from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_reach import accessible, coaccessible
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.errors import TrainingError

Integers = npt.NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class TimedPhones:
    """An acceptor of phones, and their times: frames begin .. end - 1 of `num_frames`, (instances,) each."""

    fst: Fst
    phone: Integers
    begin: Integers
    end: Integers
    num_frames: int


def phones_of_durations(pairs: ArrayLike) -> TimedPhones:
    """Returns the phones for pairs of a phone and its frames, (phones, 2). TrainingError unless all are above 0."""
    phone, duration = np.asarray(pairs, np.int64).reshape(-1, 2).T
    if len(phone) == 0:
        raise TrainingError("there are no phones")
    if phone.min() < 1 or duration.min() < 1:
        row = int(np.argmin(np.minimum(phone, duration)))
        raise TrainingError(f"phones and durations must be above 0, got phone {phone[row]} for {duration[row]} frames")
    end = np.cumsum(duration)
    count = len(phone)
    final = np.append(np.full(count, np.inf), 0)
    fst = Fst.from_arcs(0, final, np.arange(count), np.arange(1, count + 1), phone)
    return TimedPhones(fst, phone, end - duration, end, int(end[-1]))


def phones_of_lattice(lattice: Lattice, lm_scale: float = 0.0) -> TimedPhones:
    """Returns the phones of a lattice whose arcs are phones with their transition-ids, one a frame.

    The acceptor's costs are `lm_scale` times the costs of the graph, less the costs of the best path, at the earliest
    place. TrainingError if the lattice is empty, or its arcs are not aligned phones.
    """
    fst, lengths = lattice.fst, lattice.transition_ids.lengths
    reached = accessible(fst) & coaccessible(fst)
    if not reached.any():
        raise TrainingError("the lattice is empty")
    kept = np.flatnonzero(reached[fst.src] & reached[fst.dst])
    src, dst, phone, length = fst.src[kept], fst.dst[kept], fst.ilabel[kept], lengths[kept]
    if (phone == 0).any() or (length == 0).any():
        raise TrainingError("the lattice has arcs without a phone or without frames: it must be aligned with phones")
    final = np.where(reached, fst.final, np.inf)
    ends = np.flatnonzero(final < np.inf)
    structure = Fst.from_arcs(fst.start, final, src, dst, phone, fst.cost[kept])
    time = _state_times(structure, length)
    frames = int((time[ends] + lattice.final_transition_ids.lengths[ends]).max())
    if (time[ends] != frames).any():
        shown = f"the lattice has {frames} frames, and an end behind the phones of {time[ends].min()}"
        raise TrainingError(f"{shown}: it must be aligned with phones")
    final_cost = np.full(fst.num_states, np.inf)
    final_cost[ends] = lm_scale * final[ends]
    cost = lm_scale * structure.cost.astype(np.float64)
    if lm_scale:
        cost, final_cost = _pushed_to_the_start(structure, cost, final_cost)
    weighted = Fst.from_arcs(fst.start, final_cost, src, dst, phone, cost)
    return TimedPhones(weighted, phone, time[src], time[src] + length, frames)


def _state_times(fst: Fst, length: Integers) -> Integers:
    """Returns the number of frames before each state, (states,); -1 where no path leads."""
    time = np.full(fst.num_states, -1)
    time[fst.start] = 0
    front = np.array([fst.start])
    while len(front):
        arcs = entries_of_rows(fst.offsets, front)
        arcs = arcs[time[fst.dst[arcs]] < 0]
        time[fst.dst[arcs]] = time[fst.src[arcs]] + length[arcs]
        front = np.unique(fst.dst[arcs])
    if (time[fst.src] + length != time[fst.dst]).any():
        raise TrainingError("the lattice has a state that paths reach after different numbers of frames")
    return time


def _pushed_to_the_start(
    fst: Fst, cost: npt.NDArray[np.float64], final: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns costs and final costs with which the best path from every state is free. The FST has no cycles."""
    best = final.copy()
    while True:
        through = np.full(fst.num_states, np.inf)
        np.minimum.at(through, fst.src, cost + best[fst.dst])
        better = np.minimum(final, through)
        if np.array_equal(better, best):
            break
        best = better
    best = np.where(np.isfinite(best), best, 0)
    return cost + best[fst.dst] - best[fst.src], final - best
