"""Minimum Bayes risk: the words of which fewest are expected to be wrong, with confidences and times.

H. Xu, D. Povey, L. Mangu, J. Zhu: Minimum Bayes Risk decoding and system combination based on a recursion for edit
distance. Computer Speech and Language, 2011.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.levels import longest_paths
from nnet3.speech.lattices.native_words import heard_rows, risk_rows
from nnet3.speech.lattices.timed_lattice import TimedLattice, timed_lattice
from nnet3.speech.lattices.word_times import WordBoundaries

_MOST_ROUNDS = 102
_LEAST_STATES = 1000  # of a part: memory grows with states times words
_DELETION = 1 + float(np.float32(1e-5))  # of a word of the lattice: a little more than the other edits, as in Kaldi
_MATCH, _DELETE, _INSERT = 1, 2, 3


class HeardWord(NamedTuple):
    """A word's label, first row and row behind (fractions of a row may occur), and confidence."""

    label: int
    begin: float
    end: float
    confidence: float


def least_risk_words(lattice: TimedLattice) -> list[HeardWord]:
    """Returns the words with the least expected number of errors.

    A lattice of many states is taken in parts, between states that all paths go through.
    """
    return without_overlaps([word for part in _parts(lattice) for word in _heard(part)])


def words_of_lattice(
    lattice: LabelLattice, boundaries: WordBoundaries | None, graph_scale: float = 1.0
) -> list[HeardWord]:
    """Returns the words with the least expected number of errors, with the rows that `timed_lattice` gives them."""
    rows = None if boundaries is None else heard_rows(lattice, boundaries, graph_scale)
    if rows is None:
        return least_risk_words(timed_lattice(lattice, boundaries, graph_scale))
    return without_overlaps(_words_of_rows(rows))


def _heard(lattice: TimedLattice) -> list[HeardWord]:
    rows = risk_rows(lattice)
    return sausages(lattice).heard() if rows is None else _words_of_rows(rows)


def _words_of_rows(rows: Doubles) -> list[HeardWord]:
    return [HeardWord(int(label), *times) for label, *times in rows.tolist()]


@dataclass(frozen=True, eq=False)
class Sausages:
    """Bins, one behind the other: the probabilities of labels at the positions of a sequence of words.

    labels: (labels,), the first one 0, no word. chosen: (bins,), positions in `labels`; every second bin, from the
    first on, is between words. share: (bins, labels). begin, end: (bins, labels), first rows, and rows behind, times
    share. risk: the expected number of errors of the chosen labels.
    """

    labels: Integers
    chosen: Integers
    share: Doubles
    begin: Doubles
    end: Doubles
    risk: float

    def heard(self, *, with_silence: bool = False) -> list[HeardWord]:
        """Returns the chosen words, which may overlap; with silence, also the bins where no word was chosen.

        A chosen word without probability has the times of the likeliest label of its bin.
        """
        bins = np.flatnonzero((self.chosen > 0) | with_silence)
        found = self.chosen[bins]
        share = self.share[bins, found]
        timed = np.where(share > 0, found, _last_best(self.share[bins]))
        rows = (self.begin[bins, timed], self.end[bins, timed]) / self.share[bins, timed]
        return [
            HeardWord(label, begin, end, min(sure, 1.0))
            for label, begin, end, sure in zip(self.labels[found].tolist(), *rows.tolist(), share.tolist(), strict=True)
        ]

    def ranked(self) -> list[tuple[Integers, Doubles]]:
        """Returns labels and probabilities of each bin, the likeliest first; of equals the larger label comes first."""
        found = []
        for row in self.share:
            there = np.flatnonzero(row)
            order = there[np.lexsort((-there, -row[there].astype(np.float32)))]
            found.append((self.labels[order], row[order]))
        return found

    def times(self) -> Doubles:
        """Returns first row of each bin and the row behind, (bins, 2); overlapping bins meet in the middle."""
        times = np.stack([self.begin.sum(axis=1), self.end.sum(axis=1)], axis=1)
        for number in np.flatnonzero(times[:-1, 1] > times[1:, 0]).tolist():
            if times[number, 1] > times[number + 1, 0]:
                times[number, 1] = times[number + 1, 0] = 0.5 * (times[number, 1] + times[number + 1, 0])
        return times


def sausages(lattice: TimedLattice, words: Integers | None = None, *, decode: bool = True) -> Sausages:
    """Returns the bins of the words with the least expected number of errors, or without `decode` of `words`.

    `words`, (words,), is where the search begins, by default the words of the best path.
    """
    return _Recursion(lattice, words).sausages(decode)


def _last_best(share: Doubles) -> Integers:
    """Returns the position of the largest share of each row, compared in float32 as Kaldi does; of equals the last."""
    return share.shape[1] - 1 - np.argmax(share.astype(np.float32)[:, ::-1], axis=1)


def _parts(lattice: TimedLattice) -> Iterator[TimedLattice]:
    last = len(lattice.row) - 1
    steps = np.bincount(lattice.src + 1, minlength=last + 2) - np.bincount(lattice.dst, minlength=last + 2)
    edges = [0]
    for state in np.flatnonzero(np.cumsum(steps)[:last] == 0).tolist():  # no arc leads past it
        if state >= edges[-1] + _LEAST_STATES:
            edges.append(state)
    for first, end in pairwise([*edges, last] if last else [0, 0]):
        arcs = np.flatnonzero((lattice.src >= first) & (lattice.dst <= end))
        src, dst = lattice.src[arcs] - first, lattice.dst[arcs] - first
        yield TimedLattice(lattice.row[first : end + 1], src, dst, lattice.label[arcs], lattice.cost[arcs])


class _Recursion:
    """Expected edit distances between the paths of a lattice and one sequence of words."""

    def __init__(self, lattice: TimedLattice, words: Integers | None = None):
        self.num_states = len(lattice.row)
        self.src, self.dst = lattice.src, lattice.dst
        self.begin, self.end = lattice.row[lattice.src], lattice.row[lattice.dst]
        given = np.zeros(0, np.int64) if words is None else words
        self.labels, word = np.unique(np.concatenate([lattice.label, given, [0]]), return_inverse=True)
        self.word = word[: len(lattice.label)]  # numbers in `labels`, of which 0 is label 0
        self.start = 0
        depth = longest_paths(self.num_states, self.src, self.dst)
        order = np.argsort(depth[self.dst], kind="stable")
        edges = np.searchsorted(depth[self.dst][order], np.arange(1, int(depth.max(initial=0)) + 2))
        self.levels = [order[first:end] for first, end in pairwise(edges.tolist())]
        self.level_of_arc = depth[self.dst][order] - 1
        self.probability = self._probabilities(lattice.cost)
        self.first = self._best_words(lattice.cost) if words is None else word[len(lattice.label) : -1]

    def _probabilities(self, cost: Doubles) -> Doubles:
        """Returns the probability of each arc among the arcs into its end, (arcs,).

        The exponential of complex numbers is that of the C library, as in Kaldi, on every processor: the last bit of a
        probability decides between edits that are equally far. That of real numbers is NumPy's own on some processors.
        """
        forward = np.full(self.num_states, -np.inf)
        forward[self.start] = 0
        for arcs in self.levels:
            np.logaddexp.at(forward, self.dst[arcs], forward[self.src[arcs]] - cost[arcs])
        with np.errstate(invalid="ignore"):
            probability = np.exp((forward[self.src] - cost - forward[self.dst]).astype(complex)).real
        return np.nan_to_num(probability)

    def _best_words(self, cost: Doubles) -> Integers:
        best, into = np.full(self.num_states, np.inf), np.full(self.num_states, -1)
        best[self.start] = 0
        for arcs in self.levels:
            through = best[self.src[arcs]] + cost[arcs]
            np.minimum.at(best, self.dst[arcs], through)
            wins = arcs[(through == best[self.dst[arcs]]) & (through < np.inf)][::-1]
            into[self.dst[wins]] = wins  # the first of equals, as OpenFst has it
        words, state = [], self.num_states - 1
        while into[state] >= 0:
            words.append(int(self.word[into[state]]))
            state = int(self.src[into[state]])
        return np.array([word for word in reversed(words) if word], np.int64)

    def sausages(self, decode: bool) -> Sausages:
        """Improves the words until nothing is gained, or leaves them."""
        chosen = self.first
        for _ in range(_MOST_ROUNDS):
            chosen = _with_gaps(chosen[chosen > 0])
            share, begin, end, risk = self._shares(chosen)
            if not decode:
                break
            better = _last_best(share)
            compared, positions = share.astype(np.float32), np.arange(len(chosen))
            gain = (compared[positions, better] - compared[positions, chosen]).sum()
            chosen = better
            if gain == 0:
                break
        return Sausages(self.labels, chosen, share, begin, end, risk)

    def _shares(self, chosen: Integers) -> tuple[Doubles, Doubles, Doubles, float]:
        """Returns the probability of each word at each position of the chosen words, (positions, words), two multiples
        of it, and the expected number of errors.

        The factors are the words' first rows, and the rows behind the words.
        """
        edits, risk = self._edits(chosen)
        positions, words = len(chosen), len(self.labels)
        share, begin, end = np.zeros((3, positions, words))
        mass = np.zeros((self.num_states, positions + 1))
        mass[-1, -1] = 1
        for arcs in reversed(self.levels):
            edit = edits[arcs]  # (arcs, positions)
            whole = _move_left(self.probability[arcs, None] * mass[self.dst[arcs]], edit == _INSERT)
            matched = np.where(edit == _MATCH, whole[:, 1:], 0)
            sent = np.zeros_like(whole)
            sent[:, 0] = whole[:, 0]
            sent[:, :-1] += matched
            sent[:, 1:] += np.where(edit == _DELETE, whole[:, 1:], 0)
            np.add.at(mass, self.src[arcs], sent)
            is_match, arc_end = edit == _MATCH, self.end[arcs, None]
            at = np.arange(positions), np.where(is_match, self.word[arcs, None], 0)
            said = np.where(edit == _DELETE, 0, whole[:, 1:])
            np.add.at(share, at, said)
            np.add.at(begin, at, said * np.where(is_match, self.begin[arcs, None], arc_end))
            np.add.at(end, at, said * arc_end)
        share[:, 0] += np.cumsum(mass[self.start][::-1])[::-1][1:]
        return share, begin, end, risk

    def _edits(self, chosen: Integers) -> tuple[npt.NDArray[np.int8], float]:
        """Returns the chosen edit of each arc's word at each position of the chosen words, (arcs, positions), and the
        expected distance of all of them.

        Sums are Kaldi's, in Kaldi's order: where two ways are equally far, the last bits decide. Independent positions
        are computed at once: position q of the arcs of level d - q, for each d.
        """
        positions, insertion = len(chosen), (chosen != 0).astype(np.float64)
        edits = np.zeros((len(self.src), positions), np.int8)
        distance = np.zeros((self.num_states, positions + 1))
        distance[self.start, 1:] = np.cumsum(insertion)
        arcs, level = np.concatenate([*self.levels, np.zeros(0, np.int64)]), self.level_of_arc
        src, dst, word, probability = (each[arcs] for each in (self.src, self.dst, self.word, self.probability))
        deletion = np.where(word == 0, 0, _DELETION)
        behind = np.zeros(len(arcs))  # distance behind each arc at the last position that was reached
        for step in range(len(self.levels) + positions):
            first, end = np.searchsorted(level, [step - positions, step + 1])
            first_position = step - level[first:end]
            begun = first + int(np.count_nonzero(first_position))  # arcs from here on are at position 0
            here, position = slice(first, begun), first_position[: begun - first]
            deleted = distance[src[here], position] + deletion[here]
            matched = distance[src[here], position - 1] + (word[here] != chosen[position - 1])
            inserted = behind[here] + insertion[position - 1]
            least = np.minimum(matched, deleted)
            without = np.where(matched <= deleted, _MATCH, _DELETE)
            edits[arcs[here], position - 1] = np.where(least <= inserted, without, _INSERT)
            behind[here] = np.minimum(least, inserted)
            behind[begun:end] = distance[src[begun:end], 0] + deletion[begun:end]
            now = slice(first, end)
            np.add.at(distance, (dst[now], first_position), probability[now] * behind[now])
        return edits, float(distance[-1, -1])


def _with_gaps(words: Integers) -> Integers:
    positions: Integers = np.zeros(2 * len(words) + 1, np.int64)
    positions[1::2] = words
    return positions


def _move_left(values: Doubles, moves: npt.NDArray[np.bool_]) -> Doubles:
    """Adds to each column of values (rows, columns) what the next column has by then, where `moves` (rows, columns - 1)
    says so.

    Each sum is made as it stands: differences of running sums would lose small probabilities beside large ones.
    """
    for column in np.flatnonzero(moves.any(axis=0))[::-1].tolist():
        values[:, column] += values[:, column + 1] * moves[:, column]
    return values


def without_overlaps(words: list[HeardWord]) -> list[HeardWord]:
    """Divides the joint time of overlapping words between them by their lengths."""
    words = list(words)
    for number in range(1, len(words)):
        first, second = words[number - 1], words[number]
        if second.begin >= first.end:
            continue
        before = words[number - 2].end if number > 1 else 0.0
        left, right = max(before, min(first.begin, second.begin)), max(first.end, second.end)
        lengths = first.end - first.begin, second.end - second.begin
        middle = left + (right - left) * lengths[0] / sum(lengths) if lengths[0] > 0 else left
        words[number - 1] = first._replace(begin=left, end=middle)
        words[number] = second._replace(begin=middle, end=right)
    return words
