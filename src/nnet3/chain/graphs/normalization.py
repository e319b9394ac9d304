"""The normalization graph: the denominator graph with every state as a beginning and as an end.

Composed with it, supervision gets the weights that make numerators parts of the denominator.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.chain.graphs.fst_changes import sorted_by_label, trimmed
from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst


def make_normalization_fst(denominator: Fst, initial: npt.ArrayLike) -> Fst:
    """From a denominator graph and the initial probabilities of its states, (states,); sorted by label.

    A new start, the last state, has the arcs of all states with the costs of beginning there; of those with equal
    label and destination the cheapest stays. TrainingError if a state has no initial probability.
    """
    initial = np.asarray(initial, np.float32)
    if not (initial > 0).all() or denominator.num_states == 0:
        raise TrainingError("every state of a denominator graph must have an initial probability above 0")
    beginning = -np.log(initial)  # (states,) float32
    states, arcs = denominator.num_states, denominator.num_arcs
    costs = beginning[denominator.src] + denominator.cost
    order = np.lexsort((costs, denominator.dst, denominator.ilabel))
    first = np.ones(arcs, bool)
    for key in (denominator.ilabel[order], denominator.dst[order]):
        first[1:] &= key[1:] == key[:-1]
    first[1:] = ~first[1:]
    kept = order[first]
    final = np.zeros(states + 1, np.float32)
    final[-1] = beginning.min()
    graph = Fst.from_arcs(
        states,
        final,
        np.concatenate([denominator.src, np.full(len(kept), states)]),
        np.concatenate([denominator.dst, denominator.dst[kept]]),
        np.concatenate([denominator.ilabel, denominator.ilabel[kept]]),
        np.concatenate([denominator.cost, costs[kept]]),
    )
    return sorted_by_label(trimmed(graph))


def scaled(fst: Fst, scale: float) -> Fst:
    """With all costs multiplied by a number >= 0."""
    if scale == 1:
        return fst
    ends = fst.final < np.inf
    final = np.where(ends, np.where(ends, fst.final, 0) * np.float32(scale), np.inf).astype(np.float32)
    cost = fst.cost * np.float32(scale)
    return Fst(fst.start, final, fst.offsets, fst.ilabel, fst.olabel, cost, fst.dst)
