"""Composes lattices of words with language models: with word acceptors, and with FSTs that have arcs without words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.fst import NO_STATE, Fst
from nnet3.base.kaldi_io.fst_reach import arcs_on_cycles
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_states import connected, with_states
from nnet3.errors import ModelFormatError
from nnet3.speech.arrays.aliases import Integers, Singles
from nnet3.speech.arrays.arcs import arcs_between, arcs_leaving
from nnet3.speech.arrays.columns import joined, part
from nnet3.speech.language_models.word_acceptor import NO_ARC, StateNumbers, WordAcceptor
from nnet3.speech.lattices.lattice_states import check_acyclic, with_arcs
from nnet3.speech.lattices.native_composition import NativeComposition

_NO_WORD = 0
_FEW = 100  # pairs, for which arrays take longer than lists
_STEP = -1  # in the place of an arc of the lattice, where only the model moves


class _Arcs(NamedTuple):
    """Arcs of the composition, with their origin: an arc of the lattice or _STEP, and the model's cost."""

    src: Integers
    dst: Integers
    label: Integers
    arc: Integers
    cost: Singles


_KINDS = *4 * (np.int64,), np.float32  # of the columns of `_Arcs`


class _Pairs:
    """Numbers of pairs of a state of the lattice and a state of an FST."""

    def __init__(self) -> None:
        self._numbers = StateNumbers()
        self.states, self.histories = np.zeros((2, 0), np.int64)

    def of(self, states: Integers, histories: Integers) -> Integers:
        """Returns the number of each pair, (pairs,); new pairs get the next numbers."""
        number = self._numbers.of_all(states.astype(np.int64) << 31 | histories)
        is_new = number >= len(self.states)
        new, first = np.unique(number[is_new], return_index=True)
        if len(new):
            self.states = np.append(self.states, states[is_new][first])
            self.histories = np.append(self.histories, histories[is_new][first])
        return number


def composed_in_turn(lattice: Lattice, acceptors: Sequence[WordAcceptor]) -> Lattice:
    """Returns the lattice with the costs of language models added to its graph costs, one model after the other."""
    native = NativeComposition.of(acceptors) if acceptors and lattice.fst.num_states else None
    made = None if native is None else native.arcs(lattice)
    if made is not None:
        return made.of(lattice)
    for acceptor in acceptors:
        lattice = _composed(lattice, acceptor)
    return lattice


def composed(lattice: Lattice, acceptor: WordAcceptor) -> Lattice:
    """Returns the lattice with the costs of a language model added to its graph costs.

    Paths with a word that the model does not accept are left out; the result may be empty. Pairs of states are
    visited breadth first, arcs in order: the order decides which history survives in a model that merges histories
    (facts: rescoring.md, 2.1, 2.4).
    """
    return composed_in_turn(lattice, [acceptor])


def _composed(lattice: Lattice, acceptor: WordAcceptor) -> Lattice:
    fst, first = lattice.fst, 0
    if fst.start == NO_STATE:
        return lattice
    check_acyclic(lattice)
    offsets, dst, labels = fst.offsets.tolist(), fst.dst.tolist(), fst.ilabel.tolist()
    pairs, rows = [(fst.start, 0)], list[tuple[int, int, int, int, float]]()
    number = {pairs[0]: 0}
    while first < len(pairs):
        leaving = [
            (src, history, arc)
            for src, (state, history) in enumerate(pairs[first:], first)
            for arc in range(offsets[state], offsets[state + 1])
        ]
        first = len(pairs)
        spoken = iter(_model_arcs(acceptor, [(each[1], labels[each[2]]) for each in leaving if labels[each[2]]]))
        for src, history, arc in leaving:
            behind, cost = next(spoken) if labels[arc] else (history, 0.0)
            if behind == NO_ARC:
                continue
            pair = dst[arc], behind
            target = number.setdefault(pair, len(pairs))
            if target == len(pairs):
                pairs.append(pair)
            rows.append((src, target, labels[arc], arc, cost))
    states, histories = np.array(pairs, np.int64).T
    ends = np.flatnonzero(fst.final[states] < np.inf)
    final = np.full(len(states), np.inf, np.float32)
    final[ends] = fst.final[states[ends]] + acceptor.final_costs(histories[ends])
    columns = zip(*rows, strict=True) if rows else [()] * len(_KINDS)
    made = _Arcs(*(np.array(column, kind) for column, kind in zip(columns, _KINDS, strict=True)))
    return _lattice(lattice, states, made, final)


def _model_arcs(acceptor: WordAcceptor, pairs: list[tuple[int, int]]) -> Iterable[tuple[int, float]]:
    """Returns the next state and the cost for each pair of a state and a word, in order; NO_ARC without an arc."""
    if len(pairs) < _FEW:
        return [acceptor.arc(*pair) or (NO_ARC, np.inf) for pair in pairs]
    states, words = np.array(pairs, np.int64).T
    dst, cost = acceptor.arcs(states, words)
    return zip(dst.tolist(), cost.tolist(), strict=True)


class WordFst:
    """An FST of words with look-up of arcs by source state and input label, for arrays of both.

    Raises ModelFormatError for a cycle of arcs without words.
    """

    def __init__(self, fst: Fst):
        same_state = np.diff(fst.src) == 0
        if (np.diff(fst.ilabel)[same_state] < 0).any():
            order = np.lexsort((fst.ilabel, fst.src))
            ilabel, olabel = fst.ilabel[order], fst.olabel[order]
            fst = Fst(fst.start, fst.final, fst.offsets, ilabel, olabel, fst.cost[order], fst.dst[order])
        self.fst = fst
        silent = np.flatnonzero(fst.ilabel == _NO_WORD)
        steps = Fst.from_arcs(fst.start, fst.final, fst.src[silent], fst.dst[silent], fst.ilabel[silent])
        if arcs_on_cycles(steps).any():
            raise ModelFormatError("the arcs without words of a grammar have a cycle")

    def arcs(self, states: Integers, labels: Integers) -> tuple[Integers, Integers]:
        """Returns the arcs of pairs of a state and a label, and the position of each arc's pair."""
        first, end = self.fst.offsets[states], self.fst.offsets[states + 1]
        return arcs_between(self._bound(first, end, labels), self._bound(first, end, labels + 1))

    def _bound(self, low: Integers, high: Integers, labels: Integers) -> Integers:
        """Returns the first arc of each range low .. high with at least the given label, or the range's end."""
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) // 2
            open_ones = low < high
            below = open_ones.copy()
            below[open_ones] = self.fst.ilabel[middle[open_ones]] < labels[open_ones]
            low, high = np.where(below, middle + 1, low), np.where(open_ones & ~below, middle, high)
        return low


def composed_with_fst(lattice: Lattice, words: WordFst) -> Lattice:
    """Returns the lattice with the costs of an FST of words added to its graph costs, its arcs without words included.

    A path of the lattice becomes as many paths as the FST has for its words (facts: rescoring.md, 2.3). Where both have
    arcs without words, those of the lattice come first, as in OpenFst's sequence filter, so no path is there twice. The
    result may be empty.
    """
    own, fst, pairs, parts, first = lattice.fst, words.fst, _Pairs(), list[_Arcs](), 0
    if own.start == NO_STATE or fst.start == NO_STATE:
        return with_states(lattice, np.zeros(0, np.int64))
    check_acyclic(lattice)
    silent_arcs = np.bincount(own.src[own.ilabel == _NO_WORD], minlength=own.num_states)
    waits = (silent_arcs == np.diff(own.offsets)) & (own.final == np.inf)  # the FST can move behind the silent arcs
    # a pair's state is 2 * state, or 2 * state + 1 where the FST has moved before a silent arc, which may not follow
    pairs.of(np.array([2 * own.start]), np.array([fst.start]))
    while first < len(pairs.states):
        new = np.arange(first, len(pairs.states))
        first = len(pairs.states)
        (state, moved), history = np.divmod(pairs.states[new], 2), pairs.histories[new]
        arc, position = arcs_leaving(own.offsets, state)
        word = own.ilabel[arc].astype(np.int64)
        silent, spoken = np.flatnonzero((word == _NO_WORD) & (moved[position] == 0)), np.flatnonzero(word != _NO_WORD)
        found, of = words.arcs(history[position[spoken]], word[spoken])
        moving = np.flatnonzero(~waits[state])
        step, at = words.arcs(history[moving], np.zeros(len(moving), np.int64))
        at = moving[at]
        src = np.concatenate([new[position[silent]], new[position[spoken[of]]], new[at]])
        dst = pairs.of(
            np.concatenate(
                [2 * own.dst[arc[silent]], 2 * own.dst[arc[spoken[of]]], 2 * state[at] + (silent_arcs[state[at]] > 0)]
            ),
            np.concatenate([history[position[silent]], fst.dst[found], fst.dst[step]]),
        )
        used = np.concatenate([arc[silent], arc[spoken[of]], np.full(len(step), _STEP)])
        cost = np.concatenate([np.zeros(len(silent), np.float32), fst.cost[found], fst.cost[step]])
        label = np.concatenate([0 * silent, fst.olabel[found], fst.olabel[step]])
        parts.append(_Arcs(src, dst, label, used, cost))
    states = pairs.states // 2
    return _lattice(lattice, states, joined(parts), own.final[states] + fst.final[pairs.histories])


def _lattice(lattice: Lattice, states: Integers, arcs: _Arcs, final: Singles) -> Lattice:
    """Makes the lattice of the composition, of pairs with these states, on complete paths alone."""
    arcs = part(arcs, np.argsort(arcs.src, kind="stable"))
    graph = np.append(lattice.fst.cost, np.float32(0))[arcs.arc] + arcs.cost  # that of steps is the last one
    fst = Fst.from_arcs(0, final, arcs.src, arcs.dst, arcs.label, graph)
    made = with_arcs(lattice, fst, arcs.arc, states)
    is_whole = (final < np.inf) | (np.diff(made.fst.offsets) > 0)  # without cycles, then, all paths come to an end
    return made if is_whole.all() else connected(made)
