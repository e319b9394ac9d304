"""HMMs of phones without a tree: where the context of a phone is unknown, any pdf that it has will do."""

from __future__ import annotations

import numpy as np

from nnet3.chain.graphs.phone_hmms import HmmArcs, Integers, PhoneHmms
from nnet3.hmm.transition_model import TransitionModel
from nnet3.hmm.tree import ContextDependency, Leaf


class AnyContextHmms(PhoneHmms):
    """Stands for a tree that is not there: an HMM state of a phone may be any transition-state that the model has.

    The right sequence of pdfs is among those that graphs of these HMMs allow, besides those of other contexts.
    """

    def __init__(self, model: TransitionModel):
        super().__init__(ContextDependency(1, 0, Leaf(None)), model)

    def entries(self, phones: Integers) -> Integers:
        """Returns the phones themselves: each has HMM arcs of its own."""
        super().entries(phones)
        return phones

    def arcs(self, number: int, windows: Integers) -> HmmArcs:
        """Returns the transitions of phone `number`, the same for each window (windows, 1)."""
        topology, tables, tuples = self.model.topology, self.transitions, self.model.tuples
        entry = topology.entries[topology.entry_of_phone[number]]
        src, dst, ids, costs = [], [], [], []
        for state, described in enumerate(entry.states[:-1]):
            (rows,) = np.nonzero((tuples[:, 0] == number) & (tuples[:, 1] == state))
            for index, (destination, probability) in enumerate(described.transitions):
                if not described.is_emitting:
                    found, cost = np.zeros(1, np.int64), np.array([-np.log(probability)])
                elif destination == state:
                    continue
                else:
                    found = tables.first_id[rows + 1] + index
                    cost = -self.model.log_probs[found] - tables.leaving_cost[rows + 1]
                src += [state] * len(found)
                dst += [destination] * len(found)
                ids.append(found)
                costs.append(cost)
        shape = len(windows), len(src)
        all_ids, all_costs = (np.broadcast_to(np.concatenate(parts), shape) for parts in (ids, costs))
        return HmmArcs(len(entry.states), np.array(src), np.array(dst), all_ids, all_costs)
