"""HMMs of allophones: the transition-states of a chain model serve as phones, and no tree is needed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.model.hmm.segments import hmm_state_visits
from nnet3.model.hmm.topology import HmmTopology, TopologyEntry, TopologyState
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.hmm.tree import Branch, ContextDependency, Leaf
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms

_PDF_CLASS, _PHONE = -1, 0  # what the tree asks for


def allophone_hmms(model: TransitionModel) -> PhoneHmms:
    """Returns the HMMs of allophones, numbered as the transition-states.

    An allophone has one HMM state, with the pdfs and the self-loop of its transition-state. A phone of several HMM
    states is a sequence of allophones. A phone with different pdfs in different contexts is several allophones. An
    n-gram learns the sequences of allophones from alignments.
    """
    count, ids = model.num_transition_states, model.transition_ids
    state, is_loop, log_prob = model.transition_state(ids) - 1, model.is_self_loop(ids), model.log_prob(ids)
    has_loop = np.zeros(count, bool)
    has_loop[state[is_loop]] = True
    pdfs = model.tuples[:, 2:]
    kinds, kind_of_state = np.unique(np.column_stack([has_loop, pdfs[:, 0] != pdfs[:, 1]]), axis=0, return_inverse=True)
    entries = tuple(_one_state(*kind) for kind in kinds.tolist())
    topology = HmmTopology(entries, np.append(-1, kind_of_state.reshape(-1)).astype(np.int32))
    both = np.full((count, 2), -np.inf)  # log-probabilities of the self-loop, and of leaving the state
    np.logaddexp.at(both, (state, np.where(is_loop, 0, 1)), log_prob)
    both -= np.logaddexp.reduce(both, axis=1, keepdims=True)
    log_probs = both[np.column_stack([has_loop, np.ones(count, bool)])]
    tuples = np.column_stack([np.arange(1, count + 1), np.zeros(count, np.int32), pdfs])
    leaves = [Branch(_PDF_CLASS, tuple(map(Leaf, dict.fromkeys(own)))) for own in pdfs.tolist()]
    tree = ContextDependency(1, 0, Branch(_PHONE, (Leaf(None), *leaves)))
    return PhoneHmms(tree, TransitionModel(topology, tuples, np.append(0, log_probs)))


def _one_state(has_loop: bool, has_two_pdfs: bool) -> TopologyEntry:
    transitions = ((0, 0.5), (1, 0.5)) if has_loop else ((1, 1.0),)
    return TopologyEntry((TopologyState(0, int(has_two_pdfs), transitions), TopologyState()))


def allophones_of(transition_ids: npt.NDArray[np.int32], model: TransitionModel) -> npt.NDArray[np.int64]:
    """Returns the allophones of an alignment with their numbers of rows, (allophones, 2)."""
    first = hmm_state_visits(transition_ids, model)
    states = model.transition_state(transition_ids[first])
    return np.column_stack([states, np.diff(np.append(first, len(transition_ids)))])
