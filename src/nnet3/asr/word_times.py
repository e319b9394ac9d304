"""When words were spoken, from the transition-ids of a lattice."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.asr.raw_lattice import longest_paths
from nnet3.errors import ModelFormatError
from nnet3.hmm import TransitionModel
from nnet3.kaldi_io.files import map_file
from nnet3.kaldi_io.fst_reach import arcs_of
from nnet3.kaldi_io.lattice import Lattice, Strings

Integers = npt.NDArray[np.integer]
Doubles = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_BEGINS, _PARTS = ("begin", "singleton"), ("internal", "end")
_KINDS = ("nonword", *_BEGINS, *_PARTS)
_MOST_CELLS = 1 << 24  # paths times rows at once


class WordTimes(NamedTuple):
    """Rows of the arcs of a lattice, (arcs,) each: the word of arc a is spoken in rows begin[a] .. end[a] - 1."""

    begin: Integers
    end: Integers


class WordBoundaries:
    """Which phones begin words and which are in none, so that phones can be put together to words."""

    def __init__(self, model: TransitionModel, begins_word: Flags, is_inside: Flags):
        """begins_word, is_inside (behind the first phone of a word): by phone, from 0."""
        ids = np.arange(1, model.num_transition_ids + 1)
        flat, phone = model.topology.flat, model.phone(ids)
        entry = model.topology.entry_of_phone[phone]
        arc = flat.first_arc[flat.first_state[entry] + model.hmm_state(ids)] + model.transition_index(ids)
        self.is_self_loop = np.append(False, model.is_self_loop(ids))
        self.state = np.append(0, model.transition_state(ids))
        self.ends_phone = np.append(False, flat.destination[arc] == flat.num_states[entry] - 1) & ~self.is_self_loop
        known = phone < len(begins_word)
        self.begins_word = np.append(False, known & begins_word[np.where(known, phone, 0)])
        self.is_inside = np.append(False, known & is_inside[np.where(known, phone, 0)])

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: TransitionModel) -> WordBoundaries:
        """Reads `word_boundary.int`: a phone and nonword, begin, end, internal or singleton in each line."""
        most = int(model.num_phones) + 1
        begins, inside = np.zeros(most, bool), np.zeros(most, bool)
        for number, line in enumerate(bytes(map_file(path)).decode("utf-8", "replace").splitlines(), 1):
            fields = line.split()
            if not fields:
                continue
            if len(fields) != 2 or not fields[0].isdigit() or fields[1] not in _KINDS:
                message = f"expected a phone and one of {', '.join(_KINDS)}, got '{line[:60]}'"
                raise ModelFormatError(message, os.fspath(path), f"line {number}")
            phone = int(fields[0])
            if phone < most:
                begins[phone], inside[phone] = fields[1] in _BEGINS, fields[1] in _PARTS
        return cls(model, begins, inside)

    def phone_starts(self, ids: Integers) -> Flags:
        """Marks where phones begin in sequences of transition-ids, (sequences, rows).

        A phone ends with its transition to the last state of its HMM, and the self-loops behind it of the state that
        this left (where self-loops come behind the other transitions).
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

    def words(self, ids: Integers, number: Integers) -> tuple[Integers, Integers]:
        """Returns first rows, and rows behind, of word `number` (from 0) of each sequence (sequences, rows); -1 where a
        sequence has no such word."""
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


def word_times(lattice: Lattice, boundaries: WordBoundaries | None) -> WordTimes:
    """Returns when the word of each arc is spoken on the best path through that arc.

    Without boundaries, or where phones and words do not fit together, the word takes the rows of its arc.
    """
    fst, rows = lattice.fst, rows_of_states(lattice)
    begin, end = rows[fst.src], rows[fst.dst]
    if boundaries is None or fst.num_arcs == 0:
        return WordTimes(begin, end)
    walk = _Walk(lattice, rows)
    size = max(1, _MOST_CELLS // max(1, walk.num_rows))
    for first in range(0, fst.num_arcs, size):
        arcs = np.arange(first, min(first + size, fst.num_arcs))
        ids, number = walk.paths(arcs)
        found, behind = boundaries.words(ids, number)
        spoken = arcs[found >= 0]
        begin[spoken], end[spoken] = found[found >= 0], behind[found >= 0]
    return WordTimes(begin, end)


class _Walk:
    """Walks along the best path through each arc of a lattice."""

    def __init__(self, lattice: Lattice, rows: Integers):
        fst = self.fst = lattice.fst
        self.lattice, self.rows = lattice, rows
        self.cost = fst.cost.astype(np.float64) + lattice.acoustic_cost
        final = fst.final.astype(np.float64) + np.where(fst.final < np.inf, lattice.final_acoustic_cost, 0)
        depth = longest_paths(fst.num_states, fst.src, fst.dst)
        ahead, behind = np.full(fst.num_states, np.inf), final.copy()
        ahead[fst.start] = 0
        self.into, self.out = np.full((2, fst.num_states), -1)
        levels = range(int(depth.max(initial=0)) + 1)
        for level in levels:
            _relax(np.flatnonzero(depth[fst.dst] == level), fst.src, fst.dst, self.cost, ahead, self.into)
        for level in reversed(levels):
            _relax(np.flatnonzero(depth[fst.src] == level), fst.dst, fst.src, self.cost, behind, self.out)
        lengths = lattice.final_transition_ids.lengths
        self.num_rows = int((rows + lengths).max(initial=0))

    def paths(self, arcs: Integers) -> tuple[Integers, Integers]:
        """Returns the transition-ids along the paths through `arcs`, (arcs, rows), 0 behind their end, and how many
        words there are before the arc's, (arcs,)."""
        fst, ids = self.fst, np.zeros((len(arcs), self.num_rows), np.int32)
        number = np.zeros(len(arcs), np.int64)
        path, arc = np.arange(len(arcs)), arcs
        while len(path):
            self._fill(ids, path, self.lattice.transition_ids, arc, fst.src[arc])
            before = self.into[fst.src[arc]]
            path, arc = path[before >= 0], before[before >= 0]
            number[path] += fst.ilabel[arc] > 0
        path, state = np.arange(len(arcs)), fst.dst[arcs].astype(np.int64)
        while len(path):
            arc = self.out[state]
            over = arc < 0
            self._fill(ids, path[over], self.lattice.final_transition_ids, state[over], state[over])
            path, arc = path[~over], arc[~over]
            self._fill(ids, path, self.lattice.transition_ids, arc, fst.src[arc])
            state = fst.dst[arc].astype(np.int64)
        return ids, number

    def _fill(self, ids: Integers, path: Integers, strings: Strings, which: Integers, state: Integers) -> None:
        """Writes strings into rows `path`, from the rows of scores on that are over in these states."""
        lengths = strings.lengths[which]
        column = np.arange(lengths.sum()) + np.repeat(self.rows[state] - np.cumsum(lengths) + lengths, lengths)
        ids[np.repeat(path, lengths), column] = strings.values[arcs_of(strings.offsets, which)]


def _relax(arcs: Integers, src: Integers, dst: Integers, cost: Doubles, best: Doubles, link: Integers) -> None:
    """Lowers `best` of the states that arcs lead to, and notes the best arc into each."""
    through = best[src[arcs]] + cost[arcs]
    np.minimum.at(best, dst[arcs], through)
    wins = arcs[through == best[dst[arcs]]]
    link[dst[wins]] = wins
