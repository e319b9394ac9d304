"""Four phones whose HMMs are as different as they may be, and all sequences of transition-ids of them, one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nnet3.kaldi_io import Fst, Reader
from nnet3.model.hmm.topology import HmmTopology, TopologyEntry, TopologyState
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.hmm.tree import ContextDependency, make_transition_model
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms
from tests.chain.graphs.path_costs import Labels, language

_END = TopologyState()
_ONE_STATE = TopologyEntry((TopologyState(0, 1, ((0, 0.4), (1, 0.6))), _END))
_SKIPS_AND_RETURNS = TopologyEntry(
    (TopologyState(0, 1, ((0, 0.4), (1, 0.25), (2, 0.35))), TopologyState(2, 2, ((1, 0.2), (0, 0.3), (2, 0.5))), _END)
)
_BEGINS_SILENTLY = TopologyEntry(
    (
        TopologyState(-1, -1, ((1, 0.7), (2, 0.3))),
        TopologyState(0, 1, ((1, 0.5), (2, 0.1), (3, 0.4))),
        TopologyState(2, 2, ((3, 1.0),)),
        _END,
    )
)
_TREE = """ContextDependency 2 1 ToPdf TE 1 5 ( NULL
TE -1 2 ( SE 0 [ 0 1 ]
{ CE 0 CE 1 } CE 2 ) TE -1 2 ( CE 3 CE 4 )
TE -1 3 ( CE 5 CE 6 SE 0 [ 2 3 ]
{ CE 7 CE 8 } ) TE -1 3 ( CE 9 CE 10 CE 11 ) ) EndContextDependency """


def small_hmms() -> PhoneHmms:
    """Phones 1 and 2: one state; 3: one that may go back to its first state; 4: one that begins without emitting.

    Some pdfs depend on the phone before.
    """
    topology = HmmTopology((_ONE_STATE, _SKIPS_AND_RETURNS, _BEGINS_SILENTLY), np.array([-1, 0, 0, 1, 2], np.int32))
    tree = ContextDependency.read(Reader(_TREE.encode(), "tree"))
    return PhoneHmms(tree, make_transition_model(tree, topology))


def linear(labels: list[int]) -> Fst:
    count = len(labels)
    return Fst.from_arcs(0, [np.inf] * count + [0.0], range(count), range(1, count + 1), labels)


def id_sequences(hmms: PhoneHmms, phones: Fst, scale: float, longest: int) -> dict[Labels, float]:
    """What the sequences of at most `longest` transition-ids of all sequences of phones cost, the cheapest way each."""
    found: dict[Labels, float] = {}
    for sequence, cost in language(phones, longest).items():
        parts: dict[Labels, float] = {(): cost}
        for left, phone in zip((0, *sequence), sequence, strict=False):
            longer: dict[Labels, float] = {}
            for before, so_far in parts.items():
                for ids, more in _of_phone(hmms, left, phone, longest - len(before)):
                    key, total = before + ids, so_far + scale * more
                    longer[key] = min(total, longer.get(key, math.inf))
            parts = longer
        for ids, total in parts.items():
            found[ids] = min(total, found.get(ids, math.inf))
    return found


def _of_phone(hmms: PhoneHmms, left: int, phone: int, longest: int) -> Iterator[tuple[Labels, float]]:
    """Each way through the HMM: on leaving a state a transition-id, then its self-loops."""
    model, tree = hmms.model, hmms.tree
    states = model.topology.entries[model.topology.entry_of_phone[phone]].states

    def go(state: int, ids: Labels, cost: float) -> Iterator[tuple[Labels, float]]:
        if len(ids) > longest:
            return
        if state == len(states) - 1:
            yield ids, cost
            return
        described = states[state]
        if not described.is_emitting:
            for destination, probability in described.transitions:
                yield from go(destination, ids, cost - math.log(probability))
            return
        classes = (described.forward_class, described.self_loop_class)
        pdfs = [tree.pdfs({0: left, 1: phone}, kind).pop() for kind in classes]
        own = _ids_of(model, (phone, state, *pdfs))
        loop = {d: number for (d, _), number in zip(described.transitions, own, strict=True)}.get(state)
        for (destination, _), number in zip(described.transitions, own, strict=True):
            for loops in range(longest) if loop and destination != state else [0] * (destination != state):
                more = number, *[loop or 0] * loops
                yield from go(destination, (*ids, *more), cost - sum(model.log_prob(np.array(more)).tolist()))

    return go(0, (), 0.0)


def _ids_of(model: TransitionModel, wanted: tuple[int, ...]) -> list[int]:
    state = model.tuples.tolist().index(list(wanted)) + 1
    ids = np.arange(1, model.num_transition_ids + 1)
    return ids[model.transition_state(ids) == state].tolist()
