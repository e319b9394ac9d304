"""Lattices whose arcs are phones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.arrays.aliases import Flags, Integers
from nnet3.speech.arrays.columns import part
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.strings import without_first
from nnet3.speech.lattices.timed_lattice import LatticeAlignment, OtherLabels, Pending
from nnet3.speech.lattices.word_times import WordBoundaries


def phone_aligned(lattice: LabelLattice, model: TransitionModel, replaces: bool) -> tuple[LabelLattice, bool]:
    """Returns a lattice whose arcs have the transition-ids of a phone each.

    `replaces`: labels are phones; otherwise words, each at the next phone. Also returns true if all paths end with a
    whole phone.
    """
    if replaces:
        lattice = replace(lattice, label=np.zeros_like(lattice.label))
    alignment = _PhoneAlignment(lattice, model, replaces)
    return alignment.result()[0], alignment.is_whole


class _PhoneAlignment(LatticeAlignment):
    """Takes phone after phone off nodes; where several words wait, one word gets an arc without ids."""

    def __init__(self, lattice: LabelLattice, model: TransitionModel, replaces: bool):
        self._phone_of_id, self._replaces = np.append(0, model.phone(model.transition_ids)), replaces
        none = np.zeros(1, bool)
        super().__init__(lattice, WordBoundaries(model, none, none), OtherLabels())

    def _expand(self, nodes: Pending) -> None:
        while len(nodes.number):
            taken, _ = self._units(nodes)
            waits = (taken == 0) & (nodes.words.lengths < 2)
            self._go_on(part(nodes, waits))
            nodes = self._speak_unit(part(nodes, ~waits), taken[~waits])

    def _speak_unit(self, nodes: Pending, taken: Integers) -> Pending:
        words = without_first(nodes.words, np.minimum(nodes.words.lengths, 1))
        return self._speak(nodes, self._labels_of(nodes), taken, without_first(nodes.ids, taken), words)

    def _labels_of(self, nodes: Pending) -> Integers:
        if not self._replaces:
            return nodes.first_words
        return self._phone_of_id[nodes.ids.values[nodes.ids.offsets[:-1]]]

    def _is_over(self, nodes: Pending) -> Flags:
        return (nodes.ids.lengths == 0) & (nodes.words.lengths == 0)

    def _break_off(self, nodes: Pending) -> Integers:
        said = part(nodes, nodes.ids.lengths > 0)
        self.is_whole &= bool(self._boundaries.are_over(said.ids).all())
        ended = [nodes.number[:0]]
        while len(nodes.number):
            nodes = self._speak_unit(nodes, nodes.ids.lengths)
            is_over = self._is_over(nodes)
            ended.append(nodes.number[is_over])
            nodes = part(nodes, ~is_over)
        return np.concatenate(ended)
