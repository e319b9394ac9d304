"""Checks that supervision belongs to a denominator graph, which must have the sequences that it allows."""

from __future__ import annotations

import logging

import numpy as np

from nnet3.chain.denominator_graph import DenominatorGraph
from nnet3.chain.supervision import Supervision
from nnet3.errors import TrainingError
from nnet3.kaldi_io.fst_reach import arcs_of

_LOG = logging.getLogger("nnet3")
_MOST_FRAMES = 50  # in another graph hardly any sequence goes that far
_INSISTING = "say --insist-on-den-fst=true, insist-on-den-fst = true in settings, or Denominator(..., insist=True)"
_ENOUGH = 3  # supervisions that are not in it, and none that is: single ones may have been written unnormalised


class Belonging:
    """Refuses a graph that lacks the sequences whose denominator it is to be."""

    def __init__(self, graph: DenominatorGraph, *, insist: bool = False, supervisions: int = 20):
        """Only the first so many supervisions are looked at. `insist`: only warn."""
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
        """Returns true if the graph has the labels of a path of the first sequence, from any of its states on, as far
        as the first frames tell.

        That holds for every supervision that got its weights from the normalization graph of this denominator.
        """
        fst, graph = supervision.fsts[0], self.graph
        there = np.flatnonzero(graph.initial > 0)  # pairs of a state of the graph and one of the supervision
        here = np.full(len(there), fst.start)
        for _ in range(min(supervision.frames_per_sequence, _MOST_FRAMES)):
            arcs = arcs_of(fst.offsets, here)
            keys = np.repeat(there, np.diff(fst.offsets)[here]) * graph.num_pdfs + fst.ilabel[arcs] - 1
            first, behind = np.searchsorted(self._keys, keys), np.searchsorted(self._keys, keys, side="right")
            last = np.repeat(np.cumsum(behind - first) - behind, behind - first)
            taken = np.arange(len(last)) - last
            pairs = np.repeat(fst.dst[arcs], behind - first) * np.int64(graph.num_states) + self._destinations[taken]
            here, there = np.divmod(np.unique(pairs), graph.num_states)
        return len(here) > 0
