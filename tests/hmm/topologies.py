"""Random HMM topologies and transition models, HMM-like and chain-like."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import strategies as st

from nnet3.model.hmm.topology import HmmTopology, TopologyEntry, TopologyState
from nnet3.model.hmm.transition_model import TransitionModel

probabilities = st.floats(2.0**-20, 1.0, width=32)


@st.composite
def topology_entries(draw: st.DrawFn, is_hmm: bool) -> TopologyEntry:
    """States 0 .. last, each reached from the one before it; the first may be non-emitting."""
    last = draw(st.integers(1, 4))
    emitting = [True] * last
    if last > 1:
        emitting[0] = draw(st.booleans())
    classes = draw(st.lists(st.integers(0, 5), min_size=2 * last, max_size=2 * last))
    if is_hmm:
        classes = [value for value in classes[:last] for _ in range(2)]
    used = sorted({classes[2 * state + k] for state in range(last) if emitting[state] for k in range(2)})
    states = []
    for state in range(last):
        destinations = {state + 1} | draw(st.sets(st.integers(0, last), max_size=3))
        if not emitting[state]:
            destinations.discard(last)
        ordered = draw(st.permutations(sorted(destinations)))
        transitions = tuple((destination, draw(probabilities)) for destination in ordered)
        pair = [used.index(value) for value in classes[2 * state : 2 * state + 2]] if emitting[state] else [-1, -1]
        states.append(TopologyState(pair[0], pair[1], transitions))
    return TopologyEntry((*states, TopologyState()))


@st.composite
def topologies(draw: st.DrawFn) -> HmmTopology:
    is_hmm = draw(st.booleans())
    entries = draw(st.lists(topology_entries(is_hmm), min_size=1, max_size=3))
    phones = draw(st.lists(st.integers(1, 30), min_size=len(entries), max_size=8, unique=True))
    entry_of_phone = np.full(max(phones) + 1, -1, np.int32)
    for number, phone in enumerate(phones):
        entry_of_phone[phone] = number if number < len(entries) else draw(st.integers(0, len(entries) - 1))
    return HmmTopology(tuple(entries), entry_of_phone)


@st.composite
def transition_models(draw: st.DrawFn) -> TransitionModel:
    topology = draw(topologies())
    pdfs = st.integers(0, 40)
    tuples, num_ids = set(), 0
    for phone in topology.phones.tolist():
        for number, state in enumerate(topology.entries[topology.entry_of_phone[phone]].states):
            for forward, self_loop in draw(st.sets(st.tuples(pdfs, pdfs), min_size=1, max_size=2)):
                if state.is_emitting:
                    tuples.add((phone, number, forward, forward if topology.is_hmm else self_loop))
    for phone, number, _, _ in tuples:
        num_ids += len(topology.entries[topology.entry_of_phone[phone]].states[number].transitions)
    log_probs = np.log(draw(st.lists(probabilities, min_size=num_ids, max_size=num_ids)))
    return TransitionModel(topology, sorted(tuples), [0.0, *log_probs.tolist()])


def one_state_phones(pdfs: tuple[int, ...] = (0, 1, 2)) -> TransitionModel:
    """Phones 1, 2 ... of one state each, with these pdfs; transition-ids 2 p - 1 (self-loop) and 2 p of phone p."""
    state = TopologyState(0, 0, ((0, 0.5), (1, 0.5)))
    entry_of_phone = np.array([-1] + [0] * len(pdfs))
    tuples = [(phone, 0, pdf, pdf) for phone, pdf in enumerate(pdfs, 1)]
    topology = HmmTopology((TopologyEntry((state, TopologyState())),), entry_of_phone)
    return TransitionModel(topology, tuples, [0.0] + [float(np.log(0.5))] * 2 * len(pdfs))


def walk(model: TransitionModel, rng: random.Random, loops_follow: bool) -> tuple[list[int], list[int], list[int]]:
    """Returns transition-ids of some phones, the number of frames of each phone, and of each visit of an HMM state."""
    ids, lengths, visits = list[int](), list[int](), list[int]()
    states_of = {tuple(row[:2]): number for number, row in enumerate(model.tuples.tolist(), 1)}
    for _ in range(rng.randint(1, 6)):
        phone, state, begin = rng.choice(model.phones.tolist()), 0, len(ids)
        states = model.topology.entries[model.topology.entry_of_phone[phone]].states
        while state != len(states) - 1:
            arcs = [arc for arc, _ in states[state].transitions]
            onward = [arc for arc in arcs if arc > state]
            if not states[state].is_emitting:
                state = onward[0]
                continue
            all_ids = np.arange(1, model.num_transition_ids + 1)
            own = all_ids[model.transition_state(all_ids) == states_of[phone, state]].tolist()
            target = rng.choice(onward)
            loops = [own[arcs.index(state)]] * rng.randint(0, 3) if state in arcs else []
            forward = [own[arcs.index(target)]]
            ids += forward + loops if loops_follow else loops + forward
            visits.append(1 + len(loops))
            state = target
        lengths.append(len(ids) - begin)
    return ids, lengths, visits
