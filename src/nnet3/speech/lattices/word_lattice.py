"""Lattices of words: the best path of a search for each sequence of words."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_factoring import factored
from nnet3.errors import ExecutionError
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.lattices.determinizing import determinized
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.label_sets import Memory, TooLargeError
from nnet3.speech.lattices.minimizing import minimized
from nnet3.speech.lattices.raw_lattice import RawLattice

_NARROWER = 0.75
_SMALL_STEPS = 4  # by which a beam narrows; each further step is twice as large, so that there are few
_NARROWEST_BEAM = 0.01
_LOST = "costs in the lattice are so large that sums of them are lost: is the graph damaged?"
_WORK_PER_ARC = 4000  # numbers per arc of a lattice of any length; beyond them there are as many as bytes of memory


class WordLattice(NamedTuple):
    """A lattice of words with all paths within the beam `beam`."""

    lattice: Lattice
    beam: float

    def notices(self, beam: float) -> list[str]:
        """Returns a message if the lattice's beam is narrower than the requested `beam`."""
        return narrowed_notices(self.beam, beam)


def narrowed_notices(narrowed: float, beam: float) -> list[str]:
    """Says so if a lattice was narrowed to a narrower beam than was asked for."""
    if narrowed >= beam:
        return []
    return [f"the lattice needs too much memory: its beam is {narrowed:.3g} instead of {beam:.3g} (max-mem)"]


class PhoneLabels:
    """Labels that encode a word and, where a phone begins, the phone, as one number."""

    def __init__(self, model: TransitionModel):
        ids = model.transition_ids
        begins = (model.hmm_state(ids) == 0) & ~model.is_self_loop(ids)
        self._model, self._base = model, int(model.num_phones) + 1
        self._phone_begun = np.append(0, np.where(begins, model.phone(ids), 0))

    def put_into(self, lattice: LabelLattice) -> LabelLattice:
        """Returns a lattice of words, with at most one id per arc, with these labels.

        As in Kaldi, arcs from the start have no phone: paths whose first phones alone differ are merged. A word before
        a phone has an arc of its own. Raises NetworkError for transition-ids of another model.
        """
        self._model.check_ids(lattice.ids.values)
        word, phone = lattice.label.astype(np.int64), np.zeros(len(lattice.src), np.int64)
        told = (lattice.src > 0) & (lattice.ids.lengths > 0)
        phone[told] = self._phone_begun[lattice.ids.values[lattice.ids.offsets[:-1][told]]]
        split = (word > 0) & (phone > 0)
        labelled = replace(lattice, label=word * self._base + np.where(split, 0, phone))
        return labelled.with_arcs_behind(np.flatnonzero(split), phone[split])

    def words(self, labels: Integers) -> Integers:
        """Returns the words of labels, 0 where there is a phone alone."""
        return labels // self._base


def word_lattice(
    raw: RawLattice,
    beam: float,
    most_bytes: float = np.inf,
    minimize: bool = False,
    phones: PhoneLabels | None = None,
    phones_alone: bool = False,
) -> WordLattice:
    """Returns the paths within the beam, at most one for each sequence of words, with complete transition-ids.

    With `phones`, paths with equal phones and words are merged first, as in Kaldi; with `phones_alone` paths with equal
    words stay. With `minimize`, states with equal continuations are merged.
    """
    found, narrowed = within_memory(raw.labelled(), beam, most_bytes, phones, phones_alone)
    return WordLattice(finished(found, minimize, phones_alone), narrowed)


def finished(lattice: LabelLattice, minimize: bool, phones_alone: bool) -> Lattice:
    """Returns a lattice made by `within_memory` in the form of tables, minimized if wanted.

    A lattice determinized by phones alone is not minimized, as in Kaldi: chains of arcs without words are joined.
    """
    if phones_alone:
        return factored(lattice.lattice().plain())
    return (minimized(lattice) if minimize else lattice).lattice()


def within_memory(
    lattice: LabelLattice,
    beam: float,
    most_bytes: float,
    phones: PhoneLabels | None = None,
    phones_alone: bool = False,
) -> tuple[LabelLattice, float]:
    """Determinizes a lattice of words with at most one id per arc, by phones and words first if `phones` are given.

    Sets can be exponentially many. Where sets need more than `most_bytes`, or more work than is usual for the bytes and
    the arcs, the beam is narrowed, and every further try has half of the work: all tries take twice the first at most.
    The best path is left in any case. Returns the lattice and the beam.

    Raises ExecutionError if rounding leaves no path.
    """
    whole = lattice if phones is None else phones.put_into(lattice)

    def made(lattice: LabelLattice, beam: float, memory: Memory) -> LabelLattice:
        if phones is not None:
            lattice = determinized(lattice, beam, memory)
            if not lattice.num_states:
                raise ExecutionError(_LOST)
            lattice = lattice.with_plain_ends()  # so that words see ends as Kaldi's do
            lattice = replace(lattice, label=phones.words(lattice.label))
        return lattice if phones_alone else determinized(lattice, beam, memory)

    narrowed, failures = beam, 0
    most_work = most_bytes + _WORK_PER_ARC * len(whole.src)
    while narrowed >= _NARROWEST_BEAM:
        memory = Memory(most_bytes, most_work / 2**failures)
        try:
            return made(whole if narrowed == beam else whole.pruned(narrowed), narrowed, memory), narrowed
        except (TooLargeError, MemoryError):
            failures += 1
            narrowed = min(narrowed, whole.widest_beam) * _NARROWER**2.0 ** max(failures - _SMALL_STEPS, 0)
    return made(whole.best_path(), 0.0, Memory(np.inf)), 0.0
