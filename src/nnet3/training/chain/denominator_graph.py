"""Denominator graphs: their transitions, the states where sequences begin, and whether supervision belongs to them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from nnet3.base.index import entries_of_rows
from nnet3.base.kaldi_io.fst import Fst
from nnet3.errors import TrainingError
from nnet3.training.chain.supervision import Supervision

_ROUNDS = 100
_LOG = logging.getLogger("nnet3")
_MOST_FRAMES = 50  # in another graph hardly any sequence goes that far
_INSISTING = "say --insist-on-den-fst=true, insist-on-den-fst = true in settings, or Denominator(..., insist=True)"
_ENOUGH = 3  # supervisions that are not in it, and none that is: single ones may have been written unnormalised


@dataclass(frozen=True, eq=False)
class DenominatorGraph:
    """Transition k leads from sources[k] to destinations[k], with pdf pdfs[k] and probability probabilities[k].

    Every state may be the last of a sequence. `initial` (states,) float32: the probabilities of being the first.
    """

    num_states: int
    num_pdfs: int
    sources: np.ndarray  # (transitions,) int64
    destinations: np.ndarray  # (transitions,) int64
    pdfs: np.ndarray  # (transitions,) int64
    probabilities: np.ndarray  # (transitions,) float32
    initial: np.ndarray  # (states,) float32

    def __post_init__(self) -> None:
        if self.num_states < 1 or self.num_pdfs < 1:
            raise TrainingError("a denominator graph needs at least one state and one pdf")
        if not len(self.sources) == len(self.destinations) == len(self.pdfs) == len(self.probabilities):
            raise TrainingError("a denominator graph needs a source, a destination, a pdf and a probability each")
        _check_range("source state", self.sources, self.num_states)
        _check_range("destination state", self.destinations, self.num_states)
        _check_range("pdf", self.pdfs, self.num_pdfs, "is it made for another tree?")
        if not (np.isfinite(self.probabilities).all() and (self.probabilities >= 0).all()):
            raise TrainingError("a denominator graph has a transition whose probability is infinite, negative or NaN")

    @classmethod
    def from_transitions(
        cls,
        num_pdfs: int,
        sources: np.ndarray,
        destinations: np.ndarray,
        pdfs: np.ndarray,
        costs: np.ndarray,
        final_costs: np.ndarray,
        start: int = 0,
    ) -> DenominatorGraph:
        """Returns a graph with these costs, -log of probabilities.

        `final_costs` (states,), infinite where no sequence ends, and `start` serve for the initial probabilities alone.
        """
        num_states = len(final_costs)
        ends = np.asarray(sources, np.int64), np.asarray(destinations, np.int64)
        labels = np.asarray(pdfs, np.int64)
        with np.errstate(over="ignore"):
            probabilities = np.exp(-np.asarray(costs, np.float32))
        empty = cls(num_states, num_pdfs, *ends, labels, probabilities, np.zeros(num_states, np.float32))
        initial = initial_probabilities(empty, final_costs, start)
        return cls(num_states, num_pdfs, *ends, labels, probabilities, initial)

    @classmethod
    def from_fst(cls, fst: Fst, num_pdfs: int) -> DenominatorGraph:
        """Returns the graph in a `den.fst`, whose labels are pdf-id + 1. Raises TrainingError for an FST that is no
        denominator graph of so many pdfs.
        """
        if fst.num_states == 0:
            raise TrainingError("the denominator graph is empty")
        if not fst.is_acceptor or (fst.ilabel == 0).any():
            raise TrainingError("a denominator graph must be an acceptor without epsilons: is this a decoding graph?")
        if _is_normalization_graph(fst):
            raise TrainingError(
                "every state of the denominator graph ends a sequence at no cost, and its start has the arcs of all of "
                "them: this is a normalization.fst, and the den.fst beside it is needed"
            )
        pdfs = fst.ilabel.astype(np.int64) - 1
        return cls.from_transitions(num_pdfs, fst.src, fst.dst, pdfs, fst.cost, fst.final, fst.start)


def initial_probabilities(graph: DenominatorGraph, final_costs: np.ndarray, start: int) -> np.ndarray:
    """Returns the probabilities that a chunk of a sequence begins in a state, (states,) float32: the mean of 100 steps.

    A step goes along the transitions, divided by the total probability of leaving a state (its final probability
    included), and is then scaled to sum to one.
    """
    if not 0 <= start < graph.num_states:
        raise TrainingError(f"the start state of the denominator graph is {start}, it has {graph.num_states} states")
    probabilities = graph.probabilities.astype(np.float64)
    with np.errstate(over="ignore"):
        leaving = np.exp(-np.asarray(final_costs, np.float64))
    leaving += np.bincount(graph.sources, probabilities, minlength=graph.num_states)
    wrong = np.flatnonzero(~((leaving > 0) & (leaving < 100)))
    if wrong.size:
        raise TrainingError(
            f"state {wrong[0]} of the denominator graph is left with probability {leaving[wrong[0]]:g} in all: it "
            "should be about 1, and must be above 0 and below 100"
        )
    step = probabilities / leaving[graph.sources]
    current, mean = np.zeros(graph.num_states), np.zeros(graph.num_states)
    current[start] = 1.0
    for _ in range(_ROUNDS):
        mean += current / _ROUNDS
        moved = np.bincount(graph.destinations, current[graph.sources] * step, minlength=graph.num_states)
        current = moved.astype(np.float64)
        if not current.sum() > 0:
            raise TrainingError("the denominator graph has no sequences of a hundred frames: it cannot be one")
        current /= current.sum()
    return mean.astype(np.float32)


def _is_normalization_graph(fst: Fst) -> bool:
    """Returns true for the form of normalization graphs.

    All states but the start are final with probability 1, and have arcs. No arc leads to the start, which has the arcs
    of all states and is final with a probability between 0 and 1.
    """
    others, of_start = np.delete(fst.final, fst.start), fst.src == fst.start
    if (others != 0).any() or not 0 < fst.final[fst.start] < np.inf or (fst.dst == fst.start).any():
        return False
    arcs = fst.ilabel.astype(np.int64) * fst.num_states + fst.dst
    return bool(np.isin(arcs, arcs[of_start]).all())


def _check_range(what: str, numbers: np.ndarray, limit: int, question: str = "") -> None:
    wrong = numbers[(numbers < 0) | (numbers >= limit)]
    if wrong.size:
        asked = f": {question}" if question else ""
        raise TrainingError(f"the denominator graph has a {what} {wrong[0]}, it must be in 0..{limit - 1}{asked}")


class Belonging:
    """Refuses a denominator graph that lacks the sequences of the supervisions."""

    def __init__(self, graph: DenominatorGraph, *, insist: bool = False, supervisions: int = 20):
        """`supervisions`: how many of the first supervisions are looked at. `insist`: only warn."""
        self.graph, self._insist = graph, insist
        self._left, self._num_found, self._num_missing = supervisions, 0, 0
        keys = graph.sources * graph.num_pdfs + graph.pdfs
        order = np.argsort(keys)
        self._keys, self._destinations = keys[order], graph.destinations[order]  # (transitions,)

    def look_at(self, supervision: Supervision) -> None:
        """Warns of the first supervision that is not in the graph. Raises TrainingError if none is."""
        if self._left == 0:
            return
        self._left -= 1
        if self.has_sequences_of(supervision):
            self._num_found += 1
            return
        self._num_missing += 1
        if self._num_missing == 1:
            _LOG.warning(self._message("an example"))
        if not self._insist and self._num_found == 0 and self._num_missing == _ENOUGH:
            raise TrainingError(
                f"{self._message(f'the first {_ENOUGH} examples')}. To take it all the same, {_INSISTING}"
            )

    def _message(self, examples: str) -> str:
        occurring = len(np.unique(self.graph.pdfs))
        few = f" (it has {occurring} of {self.graph.num_pdfs} pdfs)" if occurring < self.graph.num_pdfs else ""
        return (
            f"the denominator graph{few} has none of the label sequences of {examples}, so that the objective means "
            "little: it must be the den.fst that was made together with the normalization.fst of the examples, not "
            "that of another tree, and no phone_lm.fst"
        )

    def has_sequences_of(self, supervision: Supervision) -> bool:
        """Returns true if the graph has the labels of a path of the first sequence, from any of the graph's states on,
        as far as the first frames tell.

        True for every supervision weighted by the normalization graph of this denominator.
        """
        fst, graph = supervision.fsts[0], self.graph
        there = np.flatnonzero(graph.initial > 0)  # pairs of a state of the graph and one of the supervision
        here = np.full(len(there), fst.start)
        for _ in range(min(supervision.frames_per_sequence, _MOST_FRAMES)):
            arcs = entries_of_rows(fst.offsets, here)
            keys = np.repeat(there, np.diff(fst.offsets)[here]) * graph.num_pdfs + fst.ilabel[arcs] - 1
            first, behind = np.searchsorted(self._keys, keys), np.searchsorted(self._keys, keys, side="right")
            last = np.repeat(np.cumsum(behind - first) - behind, behind - first)
            taken = np.arange(len(last)) - last
            pairs = np.repeat(fst.dst[arcs], behind - first) * np.int64(graph.num_states) + self._destinations[taken]
            here, there = np.divmod(np.unique(pairs), graph.num_states)
        return len(here) > 0
