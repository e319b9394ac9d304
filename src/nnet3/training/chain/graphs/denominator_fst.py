"""Makes denominator graphs: all pronounceable sequences of pdfs, weighted by the phone language model."""

from __future__ import annotations

import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.errors import TrainingError
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.hmm.tree import ContextDependency
from nnet3.training.chain.graphs.fst_changes import with_states
from nnet3.training.chain.graphs.openfst import DELTA, OpenFst, need_openfst
from nnet3.training.chain.graphs.pdf_graph import pdfs_of_phones
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms

_ROUNDS = 3
_QUANTUM = 10 * DELTA  # of the costs that equal arcs may differ by
_MOST_ROUNDS = 200
_ROUNDS_BETWEEN_TESTS = 5
_TOLERANCE = 0.01 * DELTA  # of the logarithm of the ratio of the largest to the smallest total
_SHARE_OF_IDENTITY = 0.1  # added to the matrix, lest the iteration swing


def make_denominator_fst(tree: ContextDependency, model: TransitionModel, phone_lm: Fst) -> Fst:
    """Returns an acceptor of pdf + 1, without epsilons, in which the probabilities that leave a state sum to nearly 1.

    Raises TrainingError if tree, transition model and language model do not fit together, or without kaldifst.
    """
    need_openfst("making a denominator graph")
    if phone_lm.num_states == 0:
        raise TrainingError("the phone language model is empty")
    hmms = PhoneHmms(tree, model)
    graph = pdfs_of_phones(phone_lm, hmms)
    if graph.num_states == 0:
        raise TrainingError("no path through the phone language model ends")
    return _numbered_by_degree(_small(graph))


def _small(graph: Fst) -> Fst:
    """Merges equal states: states with equal futures and states with equal pasts."""
    for _ in range(_ROUNDS):
        for _ in range(2):
            backwards = pushed(OpenFst.of(graph).reversed().fst())
            graph = OpenFst.of(backwards).minimized_as_it_is(_QUANTUM).fst()
    return pushed(OpenFst.of(graph).without_epsilons().fst())


def _numbered_by_degree(graph: Fst) -> Fst:
    """Numbers the states with most arcs in and out first."""
    degree = np.bincount(graph.src, minlength=graph.num_states) + np.bincount(graph.dst, minlength=graph.num_states)
    return with_states(graph, np.argsort(-degree, kind="stable"))


def pushed(fst: Fst) -> Fst:
    """Moves costs along a graph until the probabilities that leave each state sum to the same value, near 1.

    Ending counts as going back to the start; weights of cyclic paths stay as they are. TrainingError if no path leads
    on from some state.
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
    olabel = None if fst.is_acceptor else fst.olabel
    return Fst.from_arcs(fst.start, end_cost, fst.src, fst.dst, fst.ilabel, cost, olabel)


def _dominant_vector(fst: Fst, probability: np.ndarray, final: np.ndarray) -> np.ndarray:
    """Returns v, (states,), with P v = lambda v, where P holds the probabilities from state to state."""
    states = fst.num_states
    vector = np.full(states, 1 / np.sqrt(states))

    def product() -> np.ndarray:
        return np.bincount(fst.src, probability * vector[fst.dst], states) + final * vector[fst.start]

    for turn in range(_MOST_ROUNDS):
        if turn % _ROUNDS_BETWEEN_TESTS == 1 and turn > 1:
            totals = product() / vector
            if np.log(totals.max() / totals.min()) <= _TOLERANCE:
                break
        vector = product() + _SHARE_OF_IDENTITY * vector
        vector /= np.linalg.norm(vector)
    return vector
