"""HMMs of phones in context: transitions, with their pdfs by the tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnet3.errors import TrainingError
from nnet3.model.hmm.topology import TopologyEntry
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.hmm.tree import ContextDependency, Leaf

Integers = npt.NDArray[np.integer]


class TransitionTables:
    """Facts about transition-ids and transition-states as arrays, in which whole graphs are looked up.

    Element 0 of a table is for epsilon, or for the time before the first transition. By transition-id: state_of_id
    (transition-states), phone_of_id, pdf_of_id (-1 for epsilon), is_self_loop. By transition-state: first_id, self_loop
    (an id, 0 without a self-loop), and the costs (-log of probabilities) loop_cost of the self-loop and leaving_cost of
    all other transitions together.
    """

    def __init__(self, model: TransitionModel):
        ids = model.transition_ids
        state_of_id = model.transition_state(ids)
        self.num_ids, self.num_pdfs = model.num_transition_ids, model.num_pdfs
        self.state_of_id = np.append(0, state_of_id)
        self.phone_of_id = np.append(0, model.phone(ids))
        self.pdf_of_id = model.pdf_of_label
        self.is_self_loop = np.append(False, model.is_self_loop(ids))
        self.first_id = np.searchsorted(state_of_id, np.arange(model.num_transition_states + 2)) + 1
        loops = np.flatnonzero(self.is_self_loop)
        self.self_loop = np.zeros(model.num_transition_states + 1, np.int64)
        self.self_loop[self.state_of_id[loops]] = loops
        log_prob = np.where(self.self_loop > 0, model.log_probs[self.self_loop], -np.inf).astype(np.float64)
        self.loop_cost = -log_prob
        with np.errstate(divide="ignore"):
            self.leaving_cost = -np.log1p(-np.exp(np.minimum(log_prob, 0)))


@dataclass(frozen=True, eq=False)
class HmmArcs:
    """The transitions of one HMM that are no self-loops, for many windows of phones at once.

    src, dst: (arcs,) HMM states. transition_id: (windows, arcs), 0 where a state emits nothing. cost: likewise,
    -log of the probability, given that the transition is no self-loop.
    """

    num_states: int
    src: Integers
    dst: Integers
    transition_id: Integers
    cost: npt.NDArray[np.floating]


class PhoneHmms:
    """A tree and a transition model, looked up together."""

    def __init__(self, tree: ContextDependency, model: TransitionModel):
        self.tree, self.model = tree, model
        self.transitions = TransitionTables(model)

    def entries(self, phones: Integers) -> Integers:
        """Returns each phone's entry of the topology, (phones,). TrainingError for a phone that the model lacks."""
        table = self.model.topology.entry_of_phone
        entry = np.where(phones < len(table), table[np.minimum(phones, len(table) - 1)], -1)
        if (entry < 0).any():
            raise TrainingError(f"the transition model has no phone {phones[np.argmin(entry)]}")
        return entry

    def arcs(self, number: int, windows: Integers) -> HmmArcs:
        """Returns the transitions of entry `number` for windows of phones (windows, width) that have it."""
        entry: TopologyEntry = self.model.topology.entries[number]
        src, dst, ids, costs = [], [], [], []
        for state in range(len(entry.states) - 1):
            transition_state = self._transition_states(entry, state, windows)
            for index, (destination, probability) in enumerate(entry.states[state].transitions):
                if destination == state and entry.states[state].is_emitting:
                    continue
                src.append(state)
                dst.append(destination)
                if transition_state is None:
                    ids.append(np.zeros(len(windows), np.int64))
                    costs.append(np.full(len(windows), -np.log(probability)))
                    continue
                transition_id = self.transitions.first_id[transition_state] + index
                ids.append(transition_id)
                costs.append(-self.model.log_probs[transition_id] - self.transitions.leaving_cost[transition_state])
        return HmmArcs(len(entry.states), np.array(src), np.array(dst), np.column_stack(ids), np.column_stack(costs))

    def _transition_states(self, entry: TopologyEntry, state: int, windows: Integers) -> Integers | None:
        """Returns the transition-state of an HMM state for each window; None for a state without emissions."""
        described = entry.states[state]
        if not described.is_emitting:
            return None
        pdfs = [self.tree.pdf_of_each(windows, kind) for kind in (described.forward_class, described.self_loop_class)]
        phones = windows[:, self.tree.central_position]
        if min(pdf.min(initial=0) for pdf in pdfs) < 0:
            row = int(np.argmin(np.minimum(*pdfs)))
            raise TrainingError(f"the tree has no pdf for phone {phones[row]} in the context {windows[row].tolist()}")
        wanted = np.column_stack([phones, np.full(len(phones), state), *pdfs])
        tuples = self.model.tuples
        _, number = np.unique(np.concatenate([tuples, wanted]), axis=0, return_inverse=True)
        found = np.full(number.max() + 1, -1)
        number = number.reshape(-1)
        found[number[: len(tuples)]] = np.arange(1, len(tuples) + 1)
        answer = found[number[len(tuples) :]]
        if answer.min(initial=1) < 0:
            phone, hmm_state, *both = wanted[int(np.argmin(answer))].tolist()
            raise TrainingError(
                f"the transition model has no state for phone {phone}, HMM state {hmm_state} and pdfs {both[0]} and "
                f"{both[1]}, which the tree asks for: do the tree and the transition model belong together?"
            )
        return answer


class AnyContextHmms(PhoneHmms):
    """Stands for a missing tree: an HMM state of a phone may be any transition-state of the model.

    Graphs of these HMMs allow the right sequence of pdfs, besides sequences of other contexts.
    """

    def __init__(self, model: TransitionModel):
        super().__init__(ContextDependency(1, 0, Leaf(None)), model)

    def entries(self, phones: Integers) -> Integers:
        """Returns the phones themselves: every phone has HMM arcs of its own."""
        super().entries(phones)
        return phones

    def arcs(self, number: int, windows: Integers) -> HmmArcs:
        """Returns the transitions of phone `number`, equal for all windows (windows, 1)."""
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
