"""Models of a few phones, and transition-ids of what they say."""

from __future__ import annotations

import numpy as np

from nnet3.model.hmm.topology import NO_PDF, HmmTopology, TopologyEntry, TopologyState
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.hmm.tree import Branch, ContextDependency, Leaf, make_transition_model

PHONES = 5
KINDS = "1 nonword\n2 begin\n3 end\n4 singleton\n5 internal\n"


def chain_model() -> TransitionModel:
    """Phone p has the transition-ids 2 p, where it begins, and 2 p - 1, where it goes on."""
    states = TopologyState(0, 1, ((0, 0.5), (1, 0.5))), TopologyState(NO_PDF, NO_PDF, ())
    return _model(TopologyEntry(states), 2)


def hmm_model() -> TransitionModel:
    """Phones of two states: ids 4 p - 3 (self-loop) and 4 p - 2 of the first, 4 p - 1 and 4 p of the second."""
    first = TopologyState(0, 0, ((0, 0.5), (1, 0.5)))
    second = TopologyState(1, 1, ((1, 0.5), (2, 0.5)))
    return _model(TopologyEntry((first, second, TopologyState(NO_PDF, NO_PDF, ()))), 2)


def _model(entry: TopologyEntry, classes: int) -> TransitionModel:
    leaves = [Branch(-1, tuple(Leaf(classes * p + c) for c in range(classes))) for p in range(PHONES)]
    tree = ContextDependency(1, 0, Branch(0, (Leaf(None), *leaves)))
    topology = HmmTopology((entry,), np.append(-1, np.zeros(PHONES)).astype(np.int32))
    return make_transition_model(tree, topology)


def ids_of_phones(model: TransitionModel, *phones: tuple[int, int]) -> list[int]:
    """Each phone for so many rows, in a chain model."""
    ids = np.arange(1, model.num_transition_ids + 1)
    loop, first = ({int(model.phone(i)): int(i) for i in ids[model.is_self_loop(ids) == is_loop]} for is_loop in (1, 0))
    return [i for phone, rows in phones for i in [first[phone]] + [loop[phone]] * (rows - 1)]
