"""What the decoding graph of a deployed model tells: its arcs, and the phonetic tree that is not delivered with it."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nnet3.hmm.transition_model import TransitionModel
from nnet3.hmm.tree import Branch, ContextDependency, Leaf
from nnet3.index import entries_of_rows
from nnet3.kaldi_io import Fst

_PDF_CLASS, _LEFT, _PHONE = -1, 0, 1  # what a tree of pairs of phones can ask for


def for_decoding(graph: Fst, model: TransitionModel, word_cost: float) -> Fst:
    """With a cost for each word, in the place of a language model, and with epsilons for input labels above the
    transition-ids, which only kept words apart."""
    ilabel = np.where(graph.ilabel > model.num_transition_ids, 0, graph.ilabel).astype(np.int32)
    cost = graph.cost + np.where(graph.olabel > 0, np.float32(word_cost), np.float32(0))
    return Fst(graph.start, graph.final, graph.offsets, ilabel, graph.olabel, cost, graph.dst)


def tree_of_graph(graph: Fst, model: TransitionModel) -> ContextDependency:
    """The tree of a chain model whose phones depend on the phone before: which pdfs each has behind which, as the graph
    has them. Pairs of phones that are in no word get the commonest pdfs of the phone.
    """
    found = _states_behind_phones(graph, model)
    phones = model.phones.tolist()
    of_phone: dict[int, dict[int, int]] = {phone: {} for phone in phones}
    for before, state in found:
        phone = int(model.tuples[state - 1, 0])
        known = of_phone[phone].setdefault(before, state)
        if known != state:
            raise SystemExit(
                f"phone {phone} behind {before} has several pdfs: it depends on more than the phone before"
            )
    children: list[Leaf | Branch] = [Leaf(None)] * (max(phones) + 1)
    for phone, states in of_phone.items():
        own = np.flatnonzero(model.tuples[:, 0] == phone)[0] + 1
        commonest = Counter(states.values()).most_common(1)[0][0] if states else int(own)
        leaves = [_leaves(model, states.get(before, commonest)) for before in range(max(phones) + 1)]
        children[phone] = Branch(_LEFT, tuple(leaves))
    return ContextDependency(2, 1, Branch(_PHONE, tuple(children)))


def _leaves(model: TransitionModel, state: int) -> Branch:
    forward, self_loop = model.tuples[state - 1, 2:].tolist()
    return Branch(_PDF_CLASS, (Leaf(forward), Leaf(self_loop)))


def _states_behind_phones(graph: Fst, model: TransitionModel) -> list[tuple[int, int]]:
    """Pairs of a phone (0: none) and a transition-state that follows it on some path from the start."""
    ids = np.arange(1, model.num_transition_ids + 1)
    phone = np.append(0, model.phone(ids))
    state_of_id = np.append(0, model.transition_state(ids))
    begins = np.append(False, ~model.is_self_loop(ids))  # a phone of a chain model has one state
    width = int(phone.max()) + 1
    seen = np.zeros(graph.num_states * width, bool)  # state of the graph and phone before it
    pairs = np.zeros((width, model.num_transition_states + 1), bool)
    front = np.array([graph.start * width])
    seen[front] = True
    while len(front):
        states, before = np.divmod(front, width)
        arcs = entries_of_rows(graph.offsets, states)
        last = np.repeat(before, graph.offsets[states + 1] - graph.offsets[states])
        labels = graph.ilabel[arcs]
        is_new = begins[labels]
        pairs[last[is_new], state_of_id[labels[is_new]]] = True
        behind = np.where(is_new, phone[labels], last)
        reached = np.unique(graph.dst[arcs].astype(np.int64) * width + behind)
        front = reached[~seen[reached]]
        seen[front] = True
    return [(int(before), int(state)) for before, state in np.argwhere(pairs)]
