"""HMMs of allophones: each transition-state of a chain model is taken for a phone, so that no tree is needed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.chain.graphs.phone_hmms import PhoneHmms
from nnet3.errors import TrainingError
from nnet3.hmm import TransitionModel
from nnet3.hmm.segments import phone_segments
from nnet3.hmm.topology import HmmTopology
from nnet3.hmm.tree import Branch, ContextDependency, Leaf

_PDF_CLASS, _PHONE = -1, 0  # what the tree asks for


def allophone_hmms(model: TransitionModel) -> PhoneHmms:
    """Returns the HMMs of allophones, which are numbered as the transition-states; transition-ids stay what they are.

    A phone with the pdfs that it has beside some others is one allophone: which one was said, alignments tell. Raises
    TrainingError if a phone has more than one HMM state that emits something, as in no chain model of today.
    """
    emitting = [[state for state in entry.states if state.is_emitting] for entry in model.topology.entries]
    if any(len(states) != 1 for states in emitting) or model.tuples[:, 1].any():
        raise TrainingError(
            "the phones of this model have several HMM states: only chain models of one state a phone can be tuned"
        )
    states = np.arange(1, model.num_transition_states + 1)
    entry_of_state = model.topology.entry_of_phone[model.tuples[:, 0]]
    topology = HmmTopology(model.topology.entries, np.append(-1, entry_of_state).astype(np.int32))
    transitions = TransitionModel(topology, np.column_stack([states, model.tuples[:, 1:]]), model.log_probs)
    leaves = []
    for entry, (_, _, forward, self_loop) in zip(entry_of_state.tolist(), model.tuples.tolist(), strict=True):
        (state,) = emitting[entry]
        pdf_of_class = {state.forward_class: forward, state.self_loop_class: self_loop}
        leaves.append(Branch(_PDF_CLASS, tuple(Leaf(pdf_of_class[number]) for number in sorted(pdf_of_class))))
    return PhoneHmms(ContextDependency(1, 0, Branch(_PHONE, (Leaf(None), *leaves))), transitions)


def allophones_of(transition_ids: npt.NDArray[np.int32], model: TransitionModel) -> npt.NDArray[np.int64]:
    """Returns the allophones of an alignment, each with its rows, (allophones, 2)."""
    first, _ = phone_segments(transition_ids, model, "transition-ids")
    states = model.transition_state(transition_ids[first])
    return np.column_stack([states, np.diff(np.append(first, len(transition_ids)))])
