"""The denominator graph: all pronounceable sequences of pdfs, weighted by the phone language model."""

from __future__ import annotations

import numpy as np

from nnet3.chain.graphs.expansion import transition_ids_of_phones
from nnet3.chain.graphs.fst_changes import trimmed, with_labels, with_states
from nnet3.chain.graphs.openfst import DELTA, OpenFst, need_openfst, without_epsilons
from nnet3.chain.graphs.phone_hmms import PhoneHmms
from nnet3.chain.graphs.push import pushed
from nnet3.errors import TrainingError
from nnet3.hmm.transition_model import TransitionModel
from nnet3.hmm.tree import ContextDependency
from nnet3.kaldi_io import Fst

_ROUNDS = 3
_QUANTUM = 10 * DELTA  # of the costs that equal arcs may differ by


def make_denominator_fst(tree: ContextDependency, model: TransitionModel, phone_lm: Fst) -> Fst:
    """An acceptor of pdf + 1, without epsilons, in which the probabilities that leave a state sum to nearly 1.

    Raises TrainingError if tree, transition model and language model do not fit together, or without kaldifst.
    """
    need_openfst("making a denominator graph")
    if phone_lm.num_states == 0:
        raise TrainingError("the phone language model is empty")
    hmms = PhoneHmms(tree, model)
    graph = transition_ids_of_phones(phone_lm, hmms, scale=1.0)
    graph = without_epsilons(with_labels(graph, hmms.transitions.pdf_of_id[graph.ilabel] + 1))
    graph = trimmed(graph)
    if graph.num_states == 0:
        raise TrainingError("no path through the phone language model ends")
    return _numbered_by_degree(_small(graph))


def _small(graph: Fst) -> Fst:
    """With equal states merged, both those with the same futures and those with the same pasts."""
    for _ in range(_ROUNDS):
        for _ in range(2):
            backwards = pushed(OpenFst.of(graph).reversed().fst())
            graph = OpenFst.of(backwards).minimized_as_it_is(_QUANTUM).fst()
    return pushed(trimmed(without_epsilons(graph)))


def _numbered_by_degree(graph: Fst) -> Fst:
    """States with many arcs in and out first."""
    degree = np.bincount(graph.src, minlength=graph.num_states) + np.bincount(graph.dst, minlength=graph.num_states)
    return with_states(graph, np.argsort(-degree, kind="stable"))
