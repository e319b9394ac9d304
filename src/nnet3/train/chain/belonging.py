"""Whether supervision belongs to a denominator graph: whether it allows sequences that the graph has."""

from __future__ import annotations

import logging

import numpy as np

from nnet3.kaldi_io.fst_reach import arcs_of
from nnet3.train.chain.denominator_graph import DenominatorGraph
from nnet3.train.chain.supervision import Supervision

_LOG = logging.getLogger("nnet3")
_MOST_FRAMES = 50  # in another graph hardly any sequence goes that far


class Belonging:
    """Warns, once, of a graph that does not have the sequences that it is to be the denominator of."""

    def __init__(self, graph: DenominatorGraph, supervisions: int = 20):
        """Only the first so many supervisions are looked at."""
        self.graph = graph
        self._left = supervisions
        keys = graph.sources * graph.num_pdfs + graph.pdfs
        order = np.argsort(keys)
        self._keys, self._destinations = keys[order], graph.destinations[order]  # (transitions,)

    def look_at(self, supervision: Supervision) -> None:
        if self._left == 0:
            return
        self._left -= 1
        if not self.has_sequences_of(supervision):
            self._left = 0
            _LOG.warning(
                "the denominator graph has none of the label sequences of an example, so that the objective means "
                "little: it must be the den.fst that was made together with the normalization.fst of the examples, not "
                "that of another tree, and no phone_lm.fst"
            )

    def has_sequences_of(self, supervision: Supervision) -> bool:
        """Whether a way through the graph, from any of its states on, has the labels of one of the paths of the first
        sequence, as far as its first frames tell.

        So it is for every supervision that was given its weights by the normalization graph of this denominator.
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
