"""What each transition-id and each transition-state is, as arrays that whole graphs can be looked up in."""

from __future__ import annotations

import numpy as np

from nnet3.hmm.transition_model import TransitionModel


class TransitionTables:
    """Element 0 of each table is for epsilon, or for what comes before the first transition.

    By transition-id: state_of_id (transition-states), phone_of_id, pdf_of_id (-1 for epsilon), is_self_loop.
    By transition-state: first_id, self_loop (an id, 0 if there is none), and the costs (-log of probabilities)
    loop_cost of the self-loop and leaving_cost of all other transitions together.
    """

    def __init__(self, model: TransitionModel):
        ids = np.arange(1, model.num_transition_ids + 1)
        state_of_id = model.transition_state(ids)
        self.num_ids, self.num_pdfs = model.num_transition_ids, model.num_pdfs
        self.state_of_id = np.append(0, state_of_id)
        self.phone_of_id = np.append(0, model.phone(ids))
        self.pdf_of_id = np.append(-1, model.pdf(ids))
        self.is_self_loop = np.append(False, model.is_self_loop(ids))
        self.first_id = np.searchsorted(state_of_id, np.arange(model.num_transition_states + 2)) + 1
        loops = np.flatnonzero(self.is_self_loop)
        self.self_loop = np.zeros(model.num_transition_states + 1, np.int64)
        self.self_loop[self.state_of_id[loops]] = loops
        log_prob = np.where(self.self_loop > 0, model.log_probs[self.self_loop], -np.inf).astype(np.float64)
        self.loop_cost = -log_prob
        with np.errstate(divide="ignore"):
            self.leaving_cost = -np.log1p(-np.exp(np.minimum(log_prob, 0)))
