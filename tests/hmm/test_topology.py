"""Topologies of HMMs: what is one, what is not, and what is odd."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.model.hmm.topology import NO_PDF, HmmTopology, TopologyEntry, TopologyState

END = TopologyState()
ONE = TopologyState(0, 0, ((0, 0.5), (1, 0.5)))
ENTRY = TopologyEntry((ONE, END))
CHAIN = TopologyEntry((TopologyState(0, 1, ((0, 0.5), (1, 0.5))), END))


def _state(number: int, *destinations: int, forward: int = 0, self_loop: int = 0) -> TopologyState:
    return TopologyState(forward, self_loop, tuple((to, 1.0 / len(destinations)) for to in destinations))


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ((END,), "at least two states, got 1"),
        ((ONE, _state(1, 0)), "state 1, the last one, must have no pdf class and no transitions"),
        ((TopologyState(0, 0), END), "state 0 has no transitions, but is not the last one"),
        ((_state(0, 2), END), "from state 0 to state 2: the states are 0 to 1"),
        ((_state(0, 1, 1), END), "from state 0 to state 1 is there twice"),
        ((_state(0, 1, self_loop=NO_PDF), END), "state 0 has one pdf class only"),
        ((_state(0, 1, forward=-2, self_loop=-2), END), "pdf classes -2 and -2: they must be >= 0, or -1"),
        ((_state(0, 1, forward=1, self_loop=1), END), "pdf classes must be 0, 1, 2 and so on, got 1"),
        ((_state(0, 1, forward=NO_PDF, self_loop=NO_PDF), END), "one without a pdf class cannot go to the last state"),
        ((TopologyState(0, 0, ((1, 0.0),)), END), "has probability 0: it must be > 0"),
        ((_state(0, 2), _state(1, 2), END), "no transition leads to state 1"),
    ],
)
def test_states_that_make_no_hmm(states: tuple[TopologyState, ...], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        TopologyEntry(states)


def test_probabilities_that_do_not_sum_to_one_only_warn() -> None:
    odd = TopologyEntry((TopologyState(0, 0, ((0, 0.5), (1, 0.25))), END))
    assert ENTRY.warnings() == []
    topology = HmmTopology((ENTRY, odd), np.array([-1, 0, 0, 1], np.int32))
    assert topology.warnings == ["topology of phone 3: the transition probabilities of state 0 sum to 0.75"]


@pytest.mark.parametrize(
    ("entry_of_phone", "message"),
    [
        ([-1, -1], "at least one phone"),
        ([0, 0], "phones begin at 1"),
        ([-1, 1], "refers to an entry of the topology that is not among its 1"),
        ([-1, 0, -2], "refers to an entry"),
    ],
)
def test_phones_that_do_not_fit(entry_of_phone: list[int], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        HmmTopology((ENTRY,), np.array(entry_of_phone, np.int32))
    with pytest.raises(ModelFormatError, match="entry 1 of the topology is for no phone"):
        HmmTopology((ENTRY, CHAIN), np.array([-1, 0], np.int32))


def test_an_hmm_emits_the_same_on_its_self_loop() -> None:
    phones = np.array([-1, 0], np.int32)
    assert HmmTopology((ENTRY,), phones).is_hmm
    assert not HmmTopology((CHAIN,), phones).is_hmm


def test_states_and_arcs_of_all_entries_in_a_row() -> None:
    skip = TopologyEntry((_state(0, 1, 2), _state(1, 1, 2, forward=1, self_loop=1), END))
    topology = HmmTopology((ENTRY, skip), np.array([-1, 1, 0, 1], np.int32))
    assert topology.phones.tolist() == [1, 2, 3]
    flat = topology.flat
    assert (flat.first_state.tolist(), flat.num_states.tolist()) == ([0, 2], [2, 3])
    assert (flat.first_arc.tolist(), flat.num_arcs.tolist()) == ([0, 2, 2, 4, 6], [2, 0, 2, 2, 0])
    assert flat.destination.tolist() == [0, 1, 1, 2, 1, 2]
