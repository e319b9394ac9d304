"""HmmTopology: the states and transitions of the HMM of each phone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nnet3.errors import ModelFormatError

NO_PDF = -1
_TOLERATED_SUM = 0.01


@dataclass(frozen=True)
class TopologyState:
    """An HMM state: its pdf classes (`NO_PDF`: it emits nothing), and its transitions as (destination, probability).

    It emits `forward_class` when it is left, `self_loop_class` when it returns to itself.
    """

    forward_class: int = NO_PDF
    self_loop_class: int = NO_PDF
    transitions: tuple[tuple[int, float], ...] = ()

    @property
    def is_emitting(self) -> bool:
        return self.forward_class != NO_PDF


@dataclass(frozen=True)
class TopologyEntry:
    """The states of an HMM that some phones share; the first is where it starts, the last where it ends.

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
        """States whose transition probabilities do not sum to one."""
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
    """The states of all entries one after another, and their transitions (arcs) likewise."""

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
        """True if each state emits the same on leaving it as on its self-loop; not so in chain topologies."""
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
        """One line for each state whose transition probabilities do not sum to one."""
        return [
            f"topology of phone {int(np.argmax(self.entry_of_phone == number))}: {warning}"
            for number, entry in enumerate(self.entries)
            for warning in entry.warnings()
        ]


def _starts(lengths: np.ndarray) -> np.ndarray:
    """Returns the starts of consecutive ranges of these lengths."""
    return np.cumsum(lengths) - lengths
