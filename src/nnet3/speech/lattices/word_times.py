"""Finds the rows of words by the transition-ids of a lattice."""

from __future__ import annotations

import os

import numpy as np

from nnet3.base.kaldi_io.files import map_file
from nnet3.base.kaldi_io.lattice import Lattice, Strings
from nnet3.base.native.addresses import addresses_of
from nnet3.base.text import whole_number, words_of
from nnet3.errors import ModelFormatError
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.arrays.aliases import Flags, Integers
from nnet3.speech.lattices.levels import longest_paths

_BEGINS, _PARTS, _ENDS = ("begin", "singleton"), ("internal", "end"), ("end", "singleton")
_KINDS = ("nonword", *_BEGINS, *_PARTS)


class WordBoundaries:
    """The phones at the beginning of words, and the phones outside words: enough to group phones into words."""

    def __init__(self, model: TransitionModel, begins_word: Flags, is_inside: Flags, ends_word: Flags | None = None):
        """begins_word, is_inside (behind the first phone of a word), ends_word: by phone, from 0."""
        self.model, ids = model, model.transition_ids
        flat, phone = model.topology.flat, model.phone(ids)
        entry = model.topology.entry_of_phone[phone]
        arc = flat.first_arc[flat.first_state[entry] + model.hmm_state(ids)] + model.transition_index(ids)
        self.is_self_loop = np.append(False, model.is_self_loop(ids))
        self.state = np.append(0, model.transition_state(ids)).astype(np.int64, copy=False)
        self.ends_phone = np.append(False, flat.destination[arc] == flat.num_states[entry] - 1) & ~self.is_self_loop
        known = phone < len(begins_word)
        kinds = (begins_word, is_inside, np.ones_like(is_inside) if ends_word is None else ends_word)
        self.begins_word, self.is_inside, self.ends_word = (
            np.append(False, known & kind[np.where(known, phone, 0)]) for kind in kinds
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: TransitionModel) -> WordBoundaries:
        """Reads `word_boundary.int`: a phone and nonword, begin, end, internal or singleton in each line."""
        most = int(model.num_phones) + 1
        begins, inside, ends = np.zeros((3, most), bool)
        for number, line in enumerate(bytes(map_file(path)).decode("utf-8", "replace").split("\n"), 1):
            fields = words_of(line)
            if not fields:
                continue
            phone = whole_number(fields[0])
            if len(fields) != 2 or phone is None or fields[1] not in _KINDS:
                message = f"expected a phone and one of {', '.join(_KINDS)}, got '{line[:60]}'"
                raise ModelFormatError(message, os.fspath(path), f"line {number}")
            if phone < most:
                begins[phone], inside[phone] = fields[1] in _BEGINS, fields[1] in _PARTS
                ends[phone] = fields[1] in _ENDS
        return cls(model, begins, inside, ends)

    @property
    def addresses(self) -> Integers:
        """What is known of ids, for C: addresses of columns, and the number of ids with 0.

        Addresses are not kept: a copy, in this process or in another one, has columns at other addresses.
        """
        flags = self.is_self_loop, self.ends_phone, self.begins_word, self.is_inside, self.ends_word
        return np.append(addresses_of([*flags, self.state]), len(self.state))

    def phone_starts(self, ids: Integers) -> Flags:
        """Marks the first row of every phone in sequences of transition-ids, (sequences, rows).

        A phone ends with its transition to the last state of its HMM, and the self-loops of the state before, which
        follow the transition (where self-loops come behind the other transitions).
        """
        rows = np.arange(ids.shape[1])
        left = np.maximum.accumulate(np.where(self.is_self_loop[ids], -1, rows), axis=1)  # the last real transition
        last = np.take_along_axis(ids, left.clip(0), axis=1)
        follows = self.is_self_loop[ids] & (left >= 0) & (self.state[ids] == self.state[last])
        is_over = (left >= 0) & self.ends_phone[last] & (follows | (left == rows))
        starts = np.ones(ids.shape, bool)
        continues = self.is_self_loop[ids[:, 1:]] & (self.state[ids[:, 1:]] == self.state[last[:, :-1]])
        starts[:, 1:] = is_over[:, :-1] & ~continues
        return starts

    def first_units(self, ids: Integers, lengths: Integers) -> tuple[Integers, Flags]:
        """Returns the number of rows of the first word or phone outside words, and if it is a word.

        Sequences of transition-ids, (sequences, rows), begin with a phone. 0 rows: the word or phone may go on behind
        the sequence, or the sequence begins inside a word.
        """
        position = np.arange(ids.shape[1])
        starts = self.phone_starts(ids) & (position > 0) & (position < lengths[:, None])
        is_word, is_inside = self.begins_word[ids[:, 0]], self.is_inside[ids[:, 0]]
        ends = starts & ~(self.is_inside[ids] & is_word[:, None]) & ~is_inside[:, None]
        return np.argmax(ends, axis=1), is_word

    def are_over(self, ids: Strings) -> Flags:
        """Marks strings of transition-ids, none empty, that end with a whole phone."""
        position = np.where(self.is_self_loop[ids.values], -1, np.arange(len(ids.values)))
        last = np.maximum.accumulate(position)[ids.offsets[1:] - 1]
        return (last >= ids.offsets[:-1]) & self.ends_phone[ids.values[last]]

    def words(self, ids: Integers, number: Integers) -> tuple[Integers, Integers]:
        """Returns first row of word `number` (from 0) of each sequence of ids (sequences, rows), and the row behind the
        word, (sequences,) each; -1 for a sequence with fewer words."""
        starts = self.phone_starts(ids)
        begins = starts & self.begins_word[ids]
        count = np.cumsum(begins, axis=1)
        begin = np.argmax(count > number[:, None], axis=1)
        found = count[:, -1] > number if ids.shape[1] else np.zeros(len(ids), bool)
        over = starts & ~self.is_inside[ids] & (np.arange(ids.shape[1]) > begin[:, None])
        end = np.where(over.any(axis=1), np.argmax(over, axis=1), ids.shape[1])
        return np.where(found, begin, -1), np.where(found, end, -1)


def rows_of_states(lattice: Lattice) -> Integers:
    """Returns the number of rows up to each state, (states,)."""
    fst, rows = lattice.fst, np.zeros(lattice.fst.num_states, np.int64)
    depth = longest_paths(fst.num_states, fst.src, fst.dst)
    for level in range(1, int(depth.max(initial=0)) + 1):
        arcs = np.flatnonzero(depth[fst.dst] == level)
        rows[fst.dst[arcs]] = rows[fst.src[arcs]] + lattice.transition_ids.lengths[arcs]
    return rows
