"""HmmTopology: the states and transitions of every phone's HMM, and its two quite different forms in files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ModelFormatError

NO_PDF = -1
_TOLERATED_SUM = 0.01


@dataclass(frozen=True)
class TopologyState:
    """An HMM state: its pdf classes (`NO_PDF`: no emission), and its transitions as (destination, probability).

    The state emits `forward_class` on leaving, `self_loop_class` on its self-loop.
    """

    forward_class: int = NO_PDF
    self_loop_class: int = NO_PDF
    transitions: tuple[tuple[int, float], ...] = ()

    @property
    def is_emitting(self) -> bool:
        return self.forward_class != NO_PDF


@dataclass(frozen=True)
class TopologyEntry:
    """The states of an HMM for some phones; paths start in the first state and end in the last.

    Raises ModelFormatError if the states make no HMM.
    """

    states: tuple[TopologyState, ...]

    def __post_init__(self) -> None:
        if len(self.states) < 2:
            raise ModelFormatError(f"an HMM needs at least two states, got {len(self.states)}")
        for number in range(len(self.states)):
            self._check_state(number)
        classes = {c for s in self.states if s.is_emitting for c in (s.forward_class, s.self_loop_class)}
        if not classes or classes != set(range(len(classes))):
            raise ModelFormatError(f"pdf classes must be 0, 1, 2 and so on, got {_shown(sorted(classes))}")
        reached = {destination for state in self.states for destination, _ in state.transitions}
        for number in range(1, len(self.states)):
            if number not in reached:
                raise ModelFormatError(f"no transition leads to state {number}")

    def _check_state(self, number: int) -> None:
        state, last = self.states[number], len(self.states) - 1
        if min(state.forward_class, state.self_loop_class) < NO_PDF:
            classes = f"{state.forward_class} and {state.self_loop_class}"
            raise ModelFormatError(f"state {number} has pdf classes {classes}: they must be >= 0, or -1 for none")
        if state.is_emitting != (state.self_loop_class != NO_PDF):
            raise ModelFormatError(f"state {number} has one pdf class only: it must have both or none")
        if number == last and (state.is_emitting or state.transitions):
            raise ModelFormatError(f"state {number}, the last one, must have no pdf class and no transitions")
        if number != last and not state.transitions:
            raise ModelFormatError(f"state {number} has no transitions, but is not the last one")
        seen: set[int] = set()
        for destination, probability in state.transitions:
            where = f"the transition from state {number} to state {destination}"
            if not 0 <= destination <= last:
                raise ModelFormatError(f"{where}: the states are 0 to {last}")
            if destination in seen:
                raise ModelFormatError(f"{where} is there twice")
            if destination == last and not state.is_emitting:
                raise ModelFormatError(f"{where}: one without a pdf class cannot go to the last state")
            if not 0 < probability < math.inf:
                raise ModelFormatError(f"{where} has probability {probability:g}: it must be > 0")
            seen.add(destination)

    def warnings(self) -> list[str]:
        """Lines for the states whose transition probabilities do not sum to one."""
        sums = [sum(probability for _, probability in state.transitions) for state in self.states[:-1]]
        return [
            f"the transition probabilities of state {number} sum to {total:g}"
            for number, total in enumerate(sums)
            if abs(total - 1) > _TOLERATED_SUM
        ]


def _shown(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "") if numbers else "none"


@dataclass(frozen=True)
class _FlatTopology:
    """The concatenated states of all entries, and their transitions (arcs), concatenated too."""

    first_state: np.ndarray  # (entries,)
    num_states: np.ndarray  # (entries,)
    first_arc: np.ndarray  # (states,)
    num_arcs: np.ndarray  # (states,)
    destination: np.ndarray  # (arcs,)


@dataclass(frozen=True, eq=False)
class HmmTopology:
    """`entries`, and for each phone number the entry it uses: `entry_of_phone` (largest phone + 1,) int32, -1 for none.

    Phones begin at 1. Raises ModelFormatError if the parts do not fit.
    """

    entries: tuple[TopologyEntry, ...]
    entry_of_phone: np.ndarray

    def __post_init__(self) -> None:
        used = self.entry_of_phone[self.phones]
        if len(self.phones) == 0 or self.phones[0] == 0:
            raise ModelFormatError("a topology must be for at least one phone, and phones begin at 1")
        if self.entry_of_phone.min() < -1 or used.max() >= len(self.entries):
            raise ModelFormatError(
                f"a phone refers to an entry of the topology that is not among its {len(self.entries)}"
            )
        unused = np.setdiff1d(np.arange(len(self.entries)), used)
        if len(unused):
            raise ModelFormatError(f"entry {unused[0]} of the topology is for no phone")

    @cached_property
    def phones(self) -> np.ndarray:
        """The phones, increasing, (n,) int32."""
        return np.flatnonzero(self.entry_of_phone >= 0).astype(np.int32)

    @cached_property
    def is_hmm(self) -> bool:
        """True if all states emit the same class on leaving as on their self-loops; False for chain topologies."""
        return all(s.forward_class == s.self_loop_class for entry in self.entries for s in entry.states)

    @cached_property
    def flat(self) -> _FlatTopology:
        states = [state for entry in self.entries for state in entry.states]
        num_states = np.array([len(entry.states) for entry in self.entries])
        num_arcs = np.array([len(state.transitions) for state in states])
        destination = np.array([arc[0] for state in states for arc in state.transitions])
        return _FlatTopology(_starts(num_states), num_states, _starts(num_arcs), num_arcs, destination)

    @property
    def warnings(self) -> list[str]:
        """Lines for the states whose transition probabilities do not sum to one."""
        return [
            f"topology of phone {int(np.argmax(self.entry_of_phone == number))}: {warning}"
            for number, entry in enumerate(self.entries)
            for warning in entry.warnings()
        ]


def _starts(lengths: np.ndarray) -> np.ndarray:
    """Returns the starts of consecutive ranges of these lengths."""
    return np.cumsum(lengths) - lengths


# Real topologies have a few entries of a few states; what Python objects take is bounded by these.
_MOST_PHONES = 1_000_000
_MOST_STATES = 50_000
_MOST_TRANSITIONS = 100_000


@contextmanager
def rules_at(reader: Reader, offset: int) -> Iterator[None]:
    """Adds the place in the file to a ModelFormatError without a place."""
    try:
        yield
    except ModelFormatError as error:
        if error.place:
            raise
        raise reader.error_at(offset, error.message) from None


def read_topology(reader: Reader) -> HmmTopology:
    """Reads `<Topology> ... </Topology>`."""
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
        self_loop = reader.after("<SelfLoopPdfClass>").int32()
    transitions = []
    while reader.expect("<Transition>", "</State>") == "<Transition>":
        budget.take(0, 1)
        transitions.append(_read_transition(reader))
    return TopologyState(forward, self_loop, tuple(transitions))


def write_topology(topology: HmmTopology, writer: Writer) -> None:
    """Writes `<Topology> ... </Topology>`."""
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
    writer.token("<State>").int32(number)
    if state.is_emitting and same_classes:
        writer.token("<PdfClass>").int32(state.forward_class)
    elif state.is_emitting:
        writer.token("<ForwardPdfClass>").int32(state.forward_class)
        writer.token("<SelfLoopPdfClass>").int32(state.self_loop_class)
    for destination, probability in state.transitions:
        writer.token("<Transition>").int32(destination)
        writer.real(probability)
    writer.token("</State>")
    writer.newline()
