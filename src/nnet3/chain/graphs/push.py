"""Moving costs along a graph until all states have the same total, as nearly as can be."""

from __future__ import annotations

import numpy as np

from nnet3.chain.graphs.openfst import DELTA
from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst

_MOST_ROUNDS = 200
_ROUNDS_BETWEEN_TESTS = 5
_TOLERANCE = 0.01 * DELTA  # of the logarithm of the ratio of the largest to the smallest total
_SHARE_OF_IDENTITY = 0.1  # added to the matrix, lest the iteration swing


def pushed(fst: Fst) -> Fst:
    """The same weights of cyclic paths, with the probabilities that leave each state (ending counts as going back to
    the start) made to sum to one value, the same everywhere and near 1.

    TrainingError if no path leads on from some state.
    """
    if fst.num_states == 0:
        return fst
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        probability = np.exp(-fst.cost.astype(np.float64))
        final = np.exp(-fst.final.astype(np.float64))
        potential = _dominant_vector(fst, probability, final)
    good = (potential > 0) & np.isfinite(potential)
    if not good.all():
        raise TrainingError(
            f"the costs of a graph are out of all proportion, or no path leads from state "
            f"{int(np.argmin(good))} of it to an end"
        )
    potential_cost = -np.log(potential)
    cost = fst.cost + potential_cost[fst.dst] - potential_cost[fst.src]
    end_cost = fst.final + potential_cost[fst.start] - potential_cost
    return Fst.from_arcs(fst.start, end_cost, fst.src, fst.dst, fst.ilabel, cost)


def _dominant_vector(fst: Fst, probability: np.ndarray, final: np.ndarray) -> np.ndarray:
    """v with P v = lambda v, where P is the matrix of what goes from state to state: (states,)."""
    states = fst.num_states
    vector = np.full(states, 1 / np.sqrt(states))
    for turn in range(_MOST_ROUNDS):
        product = np.bincount(fst.src, probability * vector[fst.dst], states) + final * vector[fst.start]
        if turn % _ROUNDS_BETWEEN_TESTS == 0:
            totals = product / vector
            if np.log(totals.max() / totals.min()) <= _TOLERANCE:
                break
        vector = product + _SHARE_OF_IDENTITY * vector
        vector /= np.linalg.norm(vector)
    return vector
