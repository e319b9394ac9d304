"""The path of a lattice whose words differ least from a reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3.base.kaldi_io.fst import NO_STATE, Fst
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.lattices.lattice_composition import WordFst, composed_with_fst
from nnet3.speech.lattices.lattice_path import best_paths
from nnet3.speech.lattices.levels import longest_paths

_FAR = 1 << 30


@dataclass(frozen=True)
class Closest:
    """The words of the path, (words,), and counts of differences to a reference of `reference_words` words."""

    words: Integers
    reference_words: int
    insertions: int
    deletions: int
    substitutions: int

    @property
    def errors(self) -> int:
        return self.insertions + self.deletions + self.substitutions


def closest_path(lattice: Lattice, reference: Integers, wildcards: Integers) -> Closest | None:
    """Returns the path with the fewest insertions, deletions and substitutions; None if no path ends.

    `wildcards` are words that count for nothing, in the lattice and in the reference. Row s of a table has the fewest
    errors of paths to state s, for each number of words of the reference.
    """
    fst, said = lattice.fst, reference[~np.isin(reference, wildcards)]
    if fst.start == NO_STATE:
        return None
    word = np.where(np.isin(fst.ilabel, wildcards), 0, fst.ilabel)
    table = _fewest_errors(fst, word, said)
    ends = np.flatnonzero(fst.final < np.inf)
    if not len(ends) or table[ends, -1].min() >= _FAR:
        return None
    state, place = int(ends[np.argmin(table[ends, -1])]), len(said)
    into, words, counts = _ArcsInto(fst), list[int](), np.zeros(3, np.int64)  # insertions, deletions, substitutions
    while state != fst.start or place or table[state, place]:
        arcs = into(state)
        differs = word[arcs] != (said[place - 1] if place else 0)
        before, same = (
            table[fst.src[arcs], place - 1] if place else np.full(len(arcs), _FAR),
            table[fst.src[arcs], place],
        )
        # what an arc of no word, an insertion, and a pair of words come to
        ways = np.stack([same, same + 1, before + differs])
        ways[0, word[arcs] != 0] = ways[1:, word[arcs] == 0] = _FAR
        kinds, found = np.nonzero(ways == table[state, place])
        if not len(found):
            counts[1], place = counts[1] + 1, place - 1
            continue
        kind, arc = int(kinds[-1]), int(arcs[found[-1]])
        counts[0] += kind == 1
        counts[2] += kind == 2 and bool(differs[found[-1]])
        words += [int(word[arc])] if kind else []
        state, place = int(fst.src[arc]), place - (kind == 2)
    return Closest(np.array(words[::-1], np.int32), len(said), *counts.tolist())


def _fewest_errors(fst: Fst, word: Integers, said: Integers) -> Integers:
    """Returns the least number of errors on a path to each state, by number of spoken words, (states, words + 1)."""
    columns = np.arange(len(said) + 1)
    table = np.full((fst.num_states, len(columns)), _FAR, np.int64)
    table[fst.start, 0] = 0
    depth = longest_paths(fst.num_states, fst.src, fst.dst)
    order = np.argsort(depth, kind="stable")
    level_of_arc = depth[fst.src]
    for level, states in enumerate(np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)):
        table[states] = np.minimum(np.minimum.accumulate(table[states] - columns, axis=1) + columns, _FAR)
        arcs = np.flatnonzero(level_of_arc == level)
        before = table[fst.src[arcs]]
        after = before + (word[arcs] != 0)[:, np.newaxis]
        replaced = before[:, :-1] + (word[arcs][:, np.newaxis] != said)
        replaced[word[arcs] == 0] = _FAR
        after[:, 1:] = np.minimum(after[:, 1:], replaced)
        np.minimum.at(table, fst.dst[arcs], after)
    return table


class _ArcsInto:
    """Finds the arcs into a state."""

    def __init__(self, fst: Fst):
        self._order = np.argsort(fst.dst, kind="stable")
        self._first = np.searchsorted(fst.dst[self._order], np.arange(fst.num_states + 1))

    def __call__(self, state: int) -> Integers:
        return self._order[self._first[state] : self._first[state + 1]]


def best_of_path(lattice: Lattice, words: Integers, wildcards: Integers) -> Lattice | None:
    """Returns the cheapest path with the given words, and wildcards anywhere between words; None without a path."""
    states = np.arange(len(words) + 1)
    loops = np.repeat(states, len(wildcards))
    final = np.where(states == len(words), 0, np.inf)
    label = np.append(words, np.tile(wildcards, len(states)))
    mask = Fst.from_arcs(0, final, np.append(states[:-1], loops), np.append(states[1:], loops), label)
    paths = best_paths(composed_with_fst(lattice, WordFst(mask)), 1)
    return paths[0].as_lattice() if paths else None
