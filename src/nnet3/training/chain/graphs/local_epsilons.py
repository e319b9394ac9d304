"""Removes epsilons next to other arcs, as Kaldi's RemoveEpsLocal does, with the same order of states and arcs."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.fst import NOT_FINAL, Fst
from nnet3.training.chain.graphs.fst_changes import trimmed


class AcceptorArc(NamedTuple):
    label: int
    cost: np.float32
    dst: int


def without_local_epsilons(fst: Fst) -> Fst:
    """Returns an acceptor, trimmed, without the epsilons that a neighbouring arc or end can take in.

    Between two states of one way in or out, `0 -> 1: epsilon` and `1 -> 2: a` become `0 -> 2: a`. Equal arcs stay, and
    so do epsilons between states with several ways in and out.
    """
    return _LocalEpsilons(fst).removed() if fst.has_epsilons else trimmed(fst)


def arcs_of_states(fst: Fst) -> list[list[AcceptorArc]]:
    """Returns the arcs of each state of an acceptor."""
    arcs = [AcceptorArc(*column) for column in zip(fst.ilabel.tolist(), fst.cost, fst.dst.tolist(), strict=True)]
    return [arcs[first:last] for first, last in pairwise(fst.offsets.tolist())]


def fst_of(start: int, final: list[np.float32], arcs: list[list[AcceptorArc]]) -> Fst:
    """Returns an acceptor with the given final costs and arcs of each state."""
    src = np.repeat(np.arange(len(arcs)), [len(each) for each in arcs])
    label, cost, dst = zip(*(arc for each in arcs for arc in each), strict=True) if len(src) else ((), (), ())
    return Fst.from_arcs(start, np.array(final, np.float32), src, dst, label, np.array(cost, np.float32))


class _LocalEpsilons:
    """Joins arcs with the arcs behind them where one of the two is an epsilon and there is one way in or out.

    Totals are minima, as in the tropical semiring; removed arcs lead to the state `_nowhere`.
    """

    def __init__(self, fst: Fst):
        self._start, self._final = fst.start, list(fst.final)
        self._arcs = arcs_of_states(fst)
        self._nowhere = fst.num_states
        self._into = np.bincount(np.append(fst.dst, fst.start), minlength=fst.num_states + 1).tolist()
        self._out = (np.diff(fst.offsets) + np.isfinite(fst.final)).tolist()

    def removed(self) -> Fst:
        """Returns the FST with fewer epsilons, trimmed."""
        for state, arcs in enumerate(self._arcs):
            for place, arc in enumerate(arcs):  # which may grow
                if arc.dst in (self._nowhere, state):
                    continue
                if self._into[arc.dst] == 1 and self._out[arc.dst] > 1:
                    self._join_all(state, place, arc)
                elif self._out[arc.dst] == 1:
                    self._join_one(state, place, arc)
        kept = [[arc for arc in arcs if arc.dst != self._nowhere] for arcs in self._arcs]
        return trimmed(fst_of(self._start, self._final, kept))

    def _join_all(self, state: int, place: int, arc: AcceptorArc) -> None:
        """Joins an arc, the only one into a state, with what leaves the state."""
        behind = self._arcs[arc.dst]
        removed = kept = np.float32(np.inf)
        new = []
        for number, follower in enumerate(behind):
            if follower.dst == self._nowhere:
                continue
            if arc.label and follower.label:
                kept = min(kept, follower.cost)
                continue
            removed = min(removed, follower.cost)
            self._take(arc.dst, number)
            new.append(self._joined(arc, follower))
        ending = self._final[arc.dst]
        if ending < np.inf and arc.label == 0:
            removed = min(removed, ending)
            self._end(state, arc.cost + ending)
            self._end_no_more(arc.dst)
        elif ending < np.inf:
            kept = min(kept, ending)
        if removed < np.inf and kept == np.inf:
            self._take(state, place)
        elif removed < np.inf:
            change = kept - min(removed, kept)
            self._arcs[state][place] = arc._replace(cost=arc.cost + change)
            behind[:] = [each._replace(cost=each.cost - change) for each in behind]
            self._final[arc.dst] -= change
        for each in new:
            self._add(state, each)

    def _join_one(self, state: int, place: int, arc: AcceptorArc) -> None:
        """Joins an arc with the only arc, or the end, that leaves the state behind it."""
        alone, ending = self._into[arc.dst] == 1, self._final[arc.dst]
        if ending < np.inf:
            if arc.label:
                return
            self._end(state, arc.cost + ending)
            if alone:
                self._end_no_more(arc.dst)
        else:
            number, follower = next(
                (number, each) for number, each in enumerate(self._arcs[arc.dst]) if each.dst != self._nowhere
            )
            if arc.label and follower.label:
                return
            if alone:
                self._take(arc.dst, number)
            self._add(state, self._joined(arc, follower))
        self._take(state, place)

    def _joined(self, arc: AcceptorArc, follower: AcceptorArc) -> AcceptorArc:
        return AcceptorArc(arc.label or follower.label, arc.cost + follower.cost, follower.dst)

    def _take(self, state: int, place: int) -> None:
        arc = self._arcs[state][place]
        self._arcs[state][place] = arc._replace(dst=self._nowhere)
        self._out[state] -= 1
        self._into[arc.dst] -= 1

    def _add(self, state: int, arc: AcceptorArc) -> None:
        self._arcs[state].append(arc)
        self._out[state] += 1
        self._into[arc.dst] += 1

    def _end(self, state: int, cost: np.float32) -> None:
        self._out[state] += int(self._final[state] == np.inf)
        self._final[state] = min(self._final[state], cost)

    def _end_no_more(self, state: int) -> None:
        self._final[state] = NOT_FINAL
        self._out[state] -= 1
