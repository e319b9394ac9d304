"""Normalization graphs: denominator graphs in which every state is a beginning and an end.

Composition with a normalization graph weights supervision, so that numerators are parts of the denominator.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_reach import arcs_on_cycles
from nnet3.errors import TrainingError
from nnet3.training.chain.graphs.fst_changes import numbered_breadth_first, sorted_by_label, trimmed
from nnet3.training.chain.graphs.openfst import OpenFst, need_openfst

MOST_STATES = 200_000  # that a determinized supervision may take


def make_normalization_fst(denominator: Fst, initial: npt.ArrayLike) -> Fst:
    """Returns the graph, sorted by label, for a denominator graph and its states' initial probabilities, (states,).

    A new start, the last state, has the arcs of all states with the costs of beginning there; of those with equal label
    and destination the cheapest stays. TrainingError if a state has no initial probability.
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
    """Multiplies all costs by a number >= 0."""
    if scale == 1:
        return fst
    ends = fst.final < np.inf
    final = np.where(ends, np.where(ends, fst.final, 0) * np.float32(scale), np.inf).astype(np.float32)
    cost = fst.cost * np.float32(scale)
    return Fst(fst.start, final, fst.offsets, fst.ilabel, fst.olabel, cost, fst.dst)


class NormalizationWeights:
    """Gives label sequences the costs of their best paths in a normalization graph, multiplied by `scale`."""

    def __init__(self, normalization: Fst, scale: float = 1.0):
        need_openfst("weighting supervision")
        if (normalization.ilabel == 0).any() or not normalization.is_acceptor:
            raise TrainingError("a normalization graph must be an acceptor without epsilons")
        self._normalization = OpenFst.of(scaled(normalization, scale))

    def weighted(self, fst: Fst) -> Fst | None:
        """Weights a supervision with paths of equal length; makes the FST deterministic, minimal, numbered by time.

        None if the normalization graph has none of its sequences, or if the result would take too many states.
        TrainingError for an FST with cycles.
        """
        if arcs_on_cycles(fst).any():
            raise TrainingError("the FST of a supervision that is not end to end must have no cycles")
        compact = determinized_and_minimized(OpenFst.of(fst).without_epsilons())
        if compact is None:
            return None
        together = compact.composed(self._normalization)
        result = determinized_and_minimized(together) if together.has_states else None
        return None if result is None else numbered_breadth_first(result.fst())

    def weighted_end_to_end(self, fst: Fst) -> Fst | None:
        """Weights a supervision that may have cycles; it is not made compact."""
        together = OpenFst.of(fst).without_epsilons().composed(self._normalization)
        return numbered_breadth_first(together.fst()) if together.has_states else None


def determinized_and_minimized(fst: OpenFst) -> OpenFst | None:
    """Returns None if that takes more than MOST_STATES."""
    result = fst.determinized(MOST_STATES)
    return None if result is None else result.minimized()
