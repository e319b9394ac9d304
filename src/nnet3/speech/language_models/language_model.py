"""Back-off language models as acceptors: states are histories, arcs of label 0 lead to shorter ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_ngram import NgramFst
from nnet3.base.kaldi_io.graph_file import GraphFile
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.speech.arrays.aliases import Integers

_MOST_BACK_OFFS = 64
_DISCOUNT = 0.5
_END = 0  # in the place of a word
_WORD = 0xFFFFFFFF
_LAST_KEY = np.iinfo(np.int64).max


class BackoffModel:
    """A language model as arrays: a word may be read in a state, or behind its back-offs.

    final: (states,) float32, infinite where no path ends. shorter: (states,), the state behind the back-off, -1 without
    one; back_off_cost: (states,) float32. Arcs of words are sorted by state and word: key: (arcs + 1,) int64, state and
    word as one number, a larger one at the end; first_arc: (states + 1,); cost: (arcs,).
    """

    def __init__(self, fst: Fst):
        self.start, self.final = fst.start, fst.final
        if fst.start < 0 or not fst.is_acceptor:
            raise ModelFormatError("a language model must be an acceptor with a start")
        is_word = fst.ilabel > 0
        key = fst.src[is_word].astype(np.int64) << 32 | fst.ilabel[is_word]
        order = slice(None) if (np.diff(key) > 0).all() else np.argsort(key)
        self.key = np.append(key[order], _LAST_KEY)
        self._dst, self.cost = fst.dst[is_word][order].astype(np.int64), fst.cost[is_word][order]
        if (self.key[1:] == self.key[:-1]).any():
            raise ModelFormatError("a state of the language model has two arcs for a word")
        self.first_arc: Integers = np.searchsorted(self.key, np.arange(fst.num_states + 1) << 32)
        back_off = np.flatnonzero(~is_word)
        source = fst.src[back_off]
        if (np.diff(source) == 0).any():
            raise ModelFormatError("a state of the language model has two back-offs")
        self.shorter = np.full(fst.num_states, -1, np.int64)
        self.back_off_cost = np.zeros(fst.num_states, np.float32)
        self.shorter[source], self.back_off_cost[source] = fst.dst[back_off], fst.cost[back_off]
        self._check_back_offs()

    def _check_back_offs(self) -> None:
        state = np.unique(self.shorter[self.shorter >= 0])
        for _ in range(_MOST_BACK_OFFS):
            state = np.unique(self.shorter[state])
            state = state[state >= 0]
            if not len(state):
                return
        raise ModelFormatError("the back-offs of the language model go round in a circle")

    @property
    def num_states(self) -> int:
        return len(self.final)

    @property
    def words(self) -> Integers:
        """The word of each arc, (arcs,)."""
        return self.key[:-1] & _WORD

    def num_words(self, states: Integers) -> Integers:
        """Returns how many words can be read in each state without backing off."""
        return self.first_arc[states + 1] - self.first_arc[states]

    def word(self, arcs: Integers) -> Integers:
        """Returns the word of each arc."""
        return self.key[arcs] & _WORD

    def dst(self, arcs: Integers) -> Integers:
        """Returns the state behind each arc."""
        return self._dst[arcs]

    def find(self, states: Integers, words: Integers) -> Integers:
        """Returns the arc of each state for the word at the same position, (n,); -1 without an arc."""
        key = states << 32 | words
        at = np.searchsorted(self.key, key)
        return np.where(self.key[at] == key, at, -1)


class NgramModel(BackoffModel):
    """The model of a file of n-grams, as it lies there: the states behind words are found when a search asks."""

    def __init__(self, ngrams: NgramFst):
        self.start, self.final = ngrams.start, ngrams.final
        self.key, self.cost, self.first_arc = ngrams.key, ngrams.cost, ngrams.first_arc
        self.shorter, self.back_off_cost = ngrams.histories.shorter, ngrams.back_off
        self._histories = ngrams.histories

    def dst(self, arcs: Integers) -> Integers:
        key = self.key[arcs]
        return self._histories.with_word(key >> 32, key & _WORD)


def model_of_graph(graph: GraphFile) -> BackoffModel:
    """Returns the model in a file. Raises ModelFormatError for a graph that is no back-off model."""
    return NgramModel(graph.content) if isinstance(graph.content, NgramFst) else BackoffModel(graph.content)


def phrase_model(phrases: Iterable[Sequence[int]]) -> BackoffModel:
    """Returns a model of words' labels. A state is the word before, or no word, as at the start.

    A word w behind h costs -log(0.5 c(h, w) / n(h)): c counts how often w follows h in the phrases, and n sums c over
    words and ends. Backing off to no history costs -log 0.5; without history the counts are of all words. A phrase
    without words is an end at the start; if all are, the model reads no word. Raises ArgumentError without a phrase.
    """
    pairs = Counter[tuple[int, int]]()
    for phrase in phrases:
        words = list(phrase)
        pairs.update(zip([_END, *words], [*words, _END], strict=True))
    if not pairs:
        raise ArgumentError("a grammar needs at least one phrase")
    anywhere = Counter[int]()
    for (before, word), count in pairs.items():
        if before:
            anywhere[word] += count
    for word, count in anywhere.items():
        pairs[_END, word] += count
    labels = sorted({word for pair in pairs for word in pair})
    number = {label: state for state, label in enumerate(labels)}
    total = Counter[int]()
    for (before, _), count in pairs.items():
        total[before] += count
    final = np.full(len(labels), np.inf)
    arcs = [(number[word], 0, 0, -np.log(_DISCOUNT)) for word in labels if word]
    for (before, word), count in sorted(pairs.items()):
        cost = -np.log(_DISCOUNT * count / total[before])
        if word == _END:
            final[number[before]] = cost
        else:
            arcs.append((number[before], number[word], word, cost))
    columns = np.array(arcs, float).reshape(-1, 4)  # one with no arc, too
    src, dst, label = columns[:, :3].T.astype(np.int64)
    return BackoffModel(Fst.from_arcs(0, final, src, dst, label, columns[:, 3]))
