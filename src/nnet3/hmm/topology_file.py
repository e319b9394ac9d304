"""Reads and writes HmmTopology in its two quite different forms, text and binary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from nnet3.errors import ModelFormatError
from nnet3.hmm.topology import NO_PDF, HmmTopology, TopologyEntry, TopologyState
from nnet3.kaldi_io import Reader, Writer

# Real topologies have a few entries of a few states; what Python objects take is bounded by these.
_MOST_PHONES = 1_000_000
_MOST_STATES = 50_000
_MOST_TRANSITIONS = 100_000


@contextmanager
def rules_at(reader: Reader, offset: int) -> Iterator[None]:
    """Adds the place in the file to a ModelFormatError that lacks one."""
    try:
        yield
    except ModelFormatError as error:
        if error.place:
            raise
        raise reader.error_at(offset, error.message) from None


def read_topology(reader: Reader) -> HmmTopology:
    """Read `<Topology> ... </Topology>`."""
    reader.expect("<Topology>")
    start = reader.position
    entries, entry_of_phone = _read_binary(reader) if reader.binary else _read_text(reader)
    with rules_at(reader, start):
        return HmmTopology(tuple(entries), entry_of_phone)


class _Budget:
    """The numbers of states and transitions that may still come."""

    def __init__(self, reader: Reader):
        self.reader = reader
        self.states, self.transitions = _MOST_STATES, _MOST_TRANSITIONS

    def take(self, states: int, transitions: int) -> None:
        self.states -= states
        self.transitions -= transitions
        if self.states < 0 or self.transitions < 0:
            limits = f"{_MOST_STATES} states or {_MOST_TRANSITIONS} transitions"
            raise self.reader.error(f"a topology of more than {limits} is not believable")


def _read_binary(reader: Reader) -> tuple[list[TopologyEntry], np.ndarray]:
    start = reader.position
    phones = reader.int_vector()
    entry_of_phone = reader.int_vector()
    if not np.array_equal(phones, np.flatnonzero(entry_of_phone >= 0)):
        raise reader.error_at(start, "the list of phones differs from the phones that have an entry in the topology")
    start = reader.position
    count = reader.int32()
    same_classes = count != -1
    if not same_classes:
        start = reader.position
        count = reader.int32()
    if count < 1:
        raise reader.error_at(start, f"a topology must have at least one entry, got {count}")
    budget = _Budget(reader)
    entries = [_read_binary_entry(reader, same_classes, budget) for _ in range(count)]
    reader.expect("</Topology>")
    return entries, entry_of_phone


def _read_binary_entry(reader: Reader, same_classes: bool, budget: _Budget) -> TopologyEntry:
    start = reader.position
    num_states = reader.size("an entry of the topology")
    budget.take(num_states, 0)
    states = []
    for _ in range(num_states):
        forward = reader.int32()
        self_loop = forward if same_classes else reader.int32()
        num_transitions = reader.size("the transitions of a state")
        budget.take(0, num_transitions)
        transitions = tuple(_read_transition(reader) for _ in range(num_transitions))
        states.append(TopologyState(forward, self_loop, transitions))
    with rules_at(reader, start):
        return TopologyEntry(tuple(states))


def _read_transition(reader: Reader) -> tuple[int, float]:
    """Reads a destination and a probability, rounded to float32 as it will be written."""
    destination = reader.int32()
    with np.errstate(over="ignore"):
        return destination, float(np.float32(reader.real()))


def _read_text(reader: Reader) -> tuple[list[TopologyEntry], np.ndarray]:
    entries: list[TopologyEntry] = []
    phones: dict[int, int] = {}  # phone -> entry
    budget = _Budget(reader)
    while reader.expect("<TopologyEntry>", "</Topology>") == "<TopologyEntry>":
        start = reader.position
        reader.expect("<ForPhones>")
        while not reader.accept("</ForPhones>"):
            _read_phone(reader, phones, len(entries))
        states: list[TopologyState] = []
        while reader.expect("<State>", "</TopologyEntry>") == "<State>":
            budget.take(1, 0)
            states.append(_read_text_state(reader, len(states), budget))
        with rules_at(reader, start):
            entries.append(TopologyEntry(tuple(states)))
    entry_of_phone = np.full(max(phones, default=0) + 1, -1, np.int32)
    entry_of_phone[list(phones)] = list(phones.values())
    return entries, entry_of_phone


def _read_phone(reader: Reader, phones: dict[int, int], entry: int) -> None:
    start = reader.position
    phone = reader.int32()
    if not 0 < phone <= _MOST_PHONES:
        raise reader.error_at(start, f"a phone must be in 1 .. {_MOST_PHONES}, got {phone}")
    if phone in phones:
        raise reader.error_at(start, f"phone {phone} has a topology already")
    phones[phone] = entry


def _read_text_state(reader: Reader, number: int, budget: _Budget) -> TopologyState:
    start = reader.position
    given = reader.int32()
    if given != number:
        raise reader.error_at(start, f"expected state {number}, got state {given}")
    forward = self_loop = NO_PDF
    if reader.accept("<PdfClass>"):
        forward = self_loop = reader.int32()
    elif reader.accept("<ForwardPdfClass>"):
        forward = reader.int32()
        reader.expect("<SelfLoopPdfClass>")
        self_loop = reader.int32()
    transitions = []
    while reader.expect("<Transition>", "</State>") == "<Transition>":
        budget.take(0, 1)
        transitions.append(_read_transition(reader))
    return TopologyState(forward, self_loop, tuple(transitions))


def write_topology(topology: HmmTopology, writer: Writer) -> None:
    """Write `<Topology> ... </Topology>`."""
    writer.token("<Topology>")
    writer.newline()
    if writer.binary:
        _write_binary(topology, writer)
    else:
        _write_text(topology, writer)
    writer.token("</Topology>")
    writer.newline()


def _write_binary(topology: HmmTopology, writer: Writer) -> None:
    writer.int_vector(topology.phones)
    writer.int_vector(topology.entry_of_phone)
    if not topology.is_hmm:
        writer.int32(-1)
    writer.int32(len(topology.entries))
    for entry in topology.entries:
        writer.int32(len(entry.states))
        for state in entry.states:
            writer.int32(state.forward_class)
            if not topology.is_hmm:
                writer.int32(state.self_loop_class)
            writer.int32(len(state.transitions))
            for destination, probability in state.transitions:
                writer.int32(destination)
                writer.real(probability)


def _write_text(topology: HmmTopology, writer: Writer) -> None:
    for number, entry in enumerate(topology.entries):
        writer.token("<TopologyEntry>")
        writer.newline()
        writer.token("<ForPhones>")
        writer.newline()
        for phone in np.flatnonzero(topology.entry_of_phone == number).tolist():
            writer.int32(phone)
        writer.newline()
        writer.token("</ForPhones>")
        writer.newline()
        for position, state in enumerate(entry.states):
            _write_text_state(position, state, topology.is_hmm, writer)
        writer.token("</TopologyEntry>")
        writer.newline()


def _write_text_state(number: int, state: TopologyState, same_classes: bool, writer: Writer) -> None:
    writer.token("<State>")
    writer.int32(number)
    if state.is_emitting and same_classes:
        writer.token("<PdfClass>")
        writer.int32(state.forward_class)
    elif state.is_emitting:
        writer.token("<ForwardPdfClass>")
        writer.int32(state.forward_class)
        writer.token("<SelfLoopPdfClass>")
        writer.int32(state.self_loop_class)
    for destination, probability in state.transitions:
        writer.token("<Transition>")
        writer.int32(destination)
        writer.real(probability)
    writer.token("</State>")
    writer.newline()
