"""TransitionModel: the meaning of each transition-id; its probabilities, and priors of pdfs, from counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike, DTypeLike

from nnet3.base.kaldi_io.arrays import int32_array
from nnet3.base.kaldi_io.int32_table import read_int32_table, write_int32_table
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.alignment import TransitionOptions
from nnet3.errors import ModelFormatError, NetworkError
from nnet3.model.hmm.topology import HmmTopology, read_topology, rules_at, write_topology

_COLUMNS = {"<Triples>": 3, "<Tuples>": 4}
_MOST_LOG_PROB = 1e-4  # rounding may leave a probability a little above 1


class TransitionModel:
    """Transition-states (rows of `tuples`, numbered from 1), each with the transitions of its HMM state.

    All these transitions in order are the transition-ids, numbered from 1. Methods with an argument `transition_id`
    take an integer or an array, and answer with a number or an array of the same shape; NetworkError for an unknown id.

    `tuples`: (transition-states, 4) int32: phone, HMM state, pdf on leaving the state, pdf on its self-loop; sorted.
    `log_probs`: (transition-ids + 1,) float32 natural logarithms; element 0 is unused. Raises ModelFormatError if the
    parts do not fit.
    """

    def __init__(self, topology: HmmTopology, tuples: ArrayLike, log_probs: ArrayLike):
        self.topology = topology
        self.tuples = int32_array(tuples, 4)
        self.log_probs = np.asarray(log_probs, np.float32)
        self._state_of_tuple = self._find_hmm_states()  # row in the flat topology
        self._check_order()
        counts = topology.flat.num_arcs[self._state_of_tuple]
        if int(counts.sum()) + 1 != len(self.log_probs):
            raise ModelFormatError(
                f"expected one log-probability more than there are transition-ids, {int(counts.sum())} + 1, "
                f"got {len(self.log_probs)}"
            )
        if not (self.log_probs <= _MOST_LOG_PROB).all() or not np.isfinite(self.log_probs).all():
            worst = int(np.argmin((self.log_probs <= _MOST_LOG_PROB) & np.isfinite(self.log_probs)))
            raise ModelFormatError(
                f"log-probability {worst} is {self.log_probs[worst]:g}, which is not that of a probability"
            )
        self._derive(counts)

    def _find_hmm_states(self) -> np.ndarray:
        """Returns the row in the flat topology of each tuple's HMM state, (transition-states,)."""
        if len(self.tuples) == 0:
            raise ModelFormatError("a transition model must have at least one transition-state")
        flat, entry_of_phone = self.topology.flat, self.topology.entry_of_phone
        phone, hmm_state = self.tuples[:, 0], self.tuples[:, 1]
        known = (phone > 0) & (phone < len(entry_of_phone))
        entry = np.where(known, entry_of_phone[np.where(known, phone, 0)], -1)
        self._check_tuples(entry >= 0, "the topology has no such phone")
        self._check_tuples((hmm_state >= 0) & (hmm_state < flat.num_states[entry]), "its HMM has no such state")
        state = flat.first_state[entry] + hmm_state
        self._check_tuples(flat.num_arcs[state] > 0, "the last state of an HMM has no transitions")
        self._check_tuples(self.tuples[:, 2:].min(axis=1) >= 0, "pdfs begin at 0")
        if self.topology.is_hmm:
            same_pdf = self.tuples[:, 2] == self.tuples[:, 3]
            self._check_tuples(same_pdf, "in this topology both pdfs must be the same")
        return state

    def _check_order(self) -> None:
        steps = np.diff(self.tuples.astype(np.int64), axis=0)
        first_step = steps[np.arange(len(steps)), (steps != 0).argmax(axis=1)] if len(steps) else steps[:, 0]
        self._check_tuples(np.append(True, first_step > 0), "it must come before the one before it")

    def _check_tuples(self, good: np.ndarray, message: str) -> None:
        if not good.all():
            number = int(np.argmin(good))
            phone, hmm_state, forward, self_loop = self.tuples[number].tolist()
            what = f"phone {phone}, HMM state {hmm_state}, pdfs {forward} and {self_loop}"
            raise ModelFormatError(f"transition-state {number + 1} ({what}): {message}")

    def _derive(self, counts: np.ndarray) -> None:
        """Makes the tables by transition-id; element 0 is unused."""
        flat = self.topology.flat
        tuple_of_id = np.repeat(np.arange(len(counts)), counts)
        index = np.arange(len(tuple_of_id)) - np.repeat(np.cumsum(counts) - counts, counts)
        arc = flat.first_arc[self._state_of_tuple][tuple_of_id] + index
        tuples = self.tuples[tuple_of_id]  # (transition-ids, 4)
        self_loop = flat.destination[arc] == tuples[:, 1]
        self._transition_state = _from_one(tuple_of_id + 1)
        self._transition_index = _from_one(index)
        self._phone = _from_one(tuples[:, 0])
        self._hmm_state = _from_one(tuples[:, 1])
        self._is_self_loop = _from_one(self_loop, bool)
        last_state = flat.num_states[self.topology.entry_of_phone[tuples[:, 0]]] - 1
        self._is_final = _from_one(flat.destination[arc] == last_state, bool)
        self._pdf = _from_one(np.where(self_loop, tuples[:, 3], tuples[:, 2]))

    # ---- counts ----

    @property
    def num_transition_ids(self) -> int:
        return len(self._pdf) - 1

    @property
    def transition_ids(self) -> np.ndarray:
        """All transition-ids: 1, 2, ..."""
        return np.arange(1, self.num_transition_ids + 1)

    @property
    def num_transition_states(self) -> int:
        return len(self.tuples)

    @cached_property
    def num_pdfs(self) -> int:
        """The largest pdf plus one."""
        return int(self.tuples[:, 2:].max()) + 1

    @property
    def phones(self) -> np.ndarray:
        """All phones, increasing, (n,) int32; there may be gaps."""
        return self.topology.phones

    @property
    def num_phones(self) -> int:
        """The largest phone, as Kaldi reports it."""
        return int(self.phones[-1])

    # ---- what a transition-id is ----

    @property
    def pdf_of_label(self) -> np.ndarray:
        """The pdf of each label of a graph, (transition-ids + 1,): -1 for 0, no transition."""
        return np.append(-1, self._pdf[1:])

    def pdf(self, transition_id: ArrayLike) -> Any:
        """Returns the pdf of a transition-id, a column of the network's output; self-loops may have another pdf."""
        return self._look_up(self._pdf, transition_id)

    def phone(self, transition_id: ArrayLike) -> Any:
        """Returns the phone of a transition-id, from 1."""
        return self._look_up(self._phone, transition_id)

    def hmm_state(self, transition_id: ArrayLike) -> Any:
        """Returns the number, from 0, of the HMM state that a transition leaves."""
        return self._look_up(self._hmm_state, transition_id)

    def is_self_loop(self, transition_id: ArrayLike) -> Any:
        """Returns true for a transition from a state to itself."""
        return self._look_up(self._is_self_loop, transition_id)

    def is_final(self, transition_id: ArrayLike) -> Any:
        """Returns true for a transition that ends the phone."""
        return self._look_up(self._is_final, transition_id)

    def log_prob(self, transition_id: ArrayLike) -> Any:
        """Returns the natural logarithm of a transition's probability."""
        return self._look_up(self.log_probs, transition_id)

    def transition_state(self, transition_id: ArrayLike) -> Any:
        """Returns the transition-state of the transition, from 1: row `transition_state - 1` of `tuples`."""
        return self._look_up(self._transition_state, transition_id)

    def transition_index(self, transition_id: ArrayLike) -> Any:
        """Returns the number of the transition within its HMM state, from 0."""
        return self._look_up(self._transition_index, transition_id)

    def _look_up(self, table: np.ndarray, transition_id: ArrayLike) -> Any:
        ids = np.asarray(transition_id)
        if ids.size == 0:
            return table[:0].reshape(ids.shape)
        self.check_ids(ids)
        answer = table[ids]
        return answer if ids.ndim else answer.item()

    def check_ids(self, ids: np.ndarray) -> None:
        """Raises NetworkError for an array with anything but transition-ids of this model, 1 .. num_transition_ids."""
        if ids.size == 0:
            return
        if not np.issubdtype(ids.dtype, np.integer):
            raise NetworkError(f"a transition-id must be an integer, got {ids.dtype}")
        low, high = int(ids.min()), int(ids.max())
        if low < 1 or high > self.num_transition_ids:
            bad = low if low < 1 else high
            raise NetworkError(f"a transition-id must be in 1 .. {self.num_transition_ids}, got {bad}")

    def __repr__(self) -> str:
        counts = f"{len(self.phones)} phones, {self.num_pdfs} pdfs, {self.num_transition_ids} transition-ids"
        return f"<TransitionModel {counts}>"

    # ---- files ----

    @classmethod
    def read(cls, reader: Reader) -> TransitionModel:
        """Reads `<TransitionModel> ... </TransitionModel>`. Raises ModelFormatError."""
        reader.expect("<TransitionModel>")
        topology = read_topology(reader)
        columns = _COLUMNS[reader.expect(*_COLUMNS)]
        start = reader.position
        tuples = read_int32_table(reader, reader.size("the transition-states"), columns, "transition-states")
        if columns == 3:
            tuples = np.column_stack([tuples, tuples[:, 2]])
        reader.expect(*(token.replace("<", "</") for token in _COLUMNS))
        log_probs = reader.after("<LogProbs>").vector()
        reader.expect("</LogProbs>")
        reader.expect("</TransitionModel>")
        with rules_at(reader, start):
            return cls(topology, tuples, log_probs)

    def write_to(self, writer: Writer) -> None:
        """Writes the model in Kaldi's form: triples if, by the topology, the two pdfs of every tuple are equal."""
        token = "<Triples>" if self.topology.is_hmm else "<Tuples>"
        columns = _COLUMNS[token]
        writer.token("<TransitionModel>")
        writer.newline()
        write_topology(self.topology, writer)
        writer.token(token).int32(len(self.tuples))
        writer.newline()
        write_int32_table(writer, self.tuples[:, :columns], columns)
        writer.token(token.replace("<", "</"))
        writer.newline()
        writer.token("<LogProbs>")
        writer.newline()
        writer.vector(self.log_probs)
        for closing in ("</LogProbs>", "</TransitionModel>"):
            writer.token(closing)
            writer.newline()


def _from_one(values: np.ndarray, dtype: DTypeLike = np.int32) -> np.ndarray:
    """Returns a table whose element 1 is the first value."""
    table = np.zeros(len(values) + 1, dtype)
    table[1:] = values
    return table


_ROUNDS = 3  # of normalising and flooring


@dataclass(frozen=True, eq=False)
class EstimatedTransitions:
    """A transition model with new probabilities, and the gain by the change.

    `gain`: log-likelihood per frame; `frames`: their number; `skipped`: transition-states, or pdfs, of too few frames;
    `floored`: probabilities raised to the floor.
    """

    model: TransitionModel
    gain: float
    frames: float
    skipped: int
    floored: int


def estimate_transitions(
    model: TransitionModel, counts: npt.NDArray[np.float64], options: TransitionOptions
) -> EstimatedTransitions:
    """Returns maximum-likelihood probabilities of transitions from their `counts`, (transition-ids + 1,).

    Transition-states of one pdf share their counts if the options say so. Raises NetworkError if transition-states that
    share counts have different numbers of transitions.
    """
    ids = model.transition_ids
    first = np.searchsorted(model.transition_state(ids), np.arange(1, model.num_transition_states + 1)) + 1
    sizes = np.diff(np.append(first, model.num_transition_ids + 1))
    log_probs = model.log_probs.copy()
    gain = frames = 0.0
    skipped = floored = 0
    for states in _pools(model, options.share_for_pdfs):
        if len(set(sizes[states].tolist())) > 1:
            raise NetworkError("transition-states of one pdf have different numbers of transitions: share nothing")
        pooled = first[states][:, None] + np.arange(sizes[states[0]])  # (states, transitions)
        seen = counts[pooled].sum(0)
        total = float(seen.sum())
        frames += total
        if len(seen) == 1:
            continue
        if total < options.transition_min_count:
            skipped += 1
            continue
        probabilities = seen / total
        for _ in range(_ROUNDS):
            probabilities = probabilities / probabilities.sum()
            floored += int((probabilities < options.transition_floor).sum())
            probabilities = np.maximum(probabilities, options.transition_floor)
        new = np.log(probabilities)
        gain += float((counts[pooled] * (new - log_probs[pooled])).sum())
        log_probs[pooled] = new
    estimated = TransitionModel(model.topology, model.tuples, log_probs)
    return EstimatedTransitions(estimated, gain / frames if frames else 0.0, frames, skipped, floored)


def _pools(model: TransitionModel, share: bool) -> list[npt.NDArray[np.integer]]:
    """Returns the groups of transition-states, from 0, with added counts: single states, or all states of a pdf."""
    if not share:
        return [np.array([state]) for state in range(model.num_transition_states)]
    pdfs = np.unique(model.tuples[:, 2:]).tolist()
    return [np.flatnonzero((model.tuples[:, 2:] == pdf).any(1)) for pdf in pdfs]


def pdf_priors(model: TransitionModel, counts: npt.NDArray[np.float64], floor: float) -> npt.NDArray[np.float32]:
    """Returns the share of each pdf in counts (transition-ids + 1,), none below the floor, (pdfs,)."""
    of_pdf = np.bincount(model.pdf(model.transition_ids), counts[1:], model.num_pdfs)
    if of_pdf.sum() <= 0:
        raise NetworkError("there are no alignments to count pdfs in")
    shares = np.maximum(of_pdf / of_pdf.sum(), floor)
    return (shares / shares.sum()).astype(np.float32)
