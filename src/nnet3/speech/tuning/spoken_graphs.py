"""SpokenGraphs: graphs of transcripts, made of the paths of a recognizer's graph with the transcripts' words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.errors import TrainingError
from nnet3.speech.asr.decoding import DecodingGraph
from nnet3.training.chain.graphs.fst_changes import trimmed
from nnet3.training.chain.graphs.openfst import OpenFst, need_openfst


class SpokenGraphs:
    """Makes the graphs of transcripts, one by one, from transition-ids to words.

    The recognizer's graph knows the pronunciations of words and the pdfs of phones in context: neither lexicon nor tree
    is needed. `words`: all words of transcripts. `unknown` counts the words missing from the recognizer.
    """

    def __init__(self, graph: DecodingGraph, words: Iterable[str]):
        need_openfst("aligning transcripts")
        counts = Counter(words)
        labels = {word: graph.words.labels.get(word, 0) for word in counts}
        self._labels = {word: label for word, label in labels.items() if label > 0}
        self.unknown = Counter({word: count for word, count in counts.items() if word not in self._labels})
        self._fst = with_words(graph.fst, self._labels.values())

    def make(self, words: Sequence[str]) -> Fst:
        """Returns the graph of known words, with the recognizer's costs.

        Raises TrainingError if the recognizer cannot hear the words in this order.
        """
        labels = [self._labels[word] for word in words]
        states = np.arange(len(labels) + 1)
        said = Fst.from_arcs(0, np.where(states == len(labels), 0, np.inf), states[:-1], states[1:], labels)
        graph = OpenFst.of(with_words(self._fst, labels)).composed(OpenFst.of(said))
        if not graph.has_states:
            raise TrainingError("the model's graph has no path with these words")
        return graph.fst()


def with_words(fst: Fst, labels: Iterable[int]) -> Fst:
    """Returns the part of a graph with only the given words."""
    is_kept = np.zeros(fst.largest_label + 1, bool)
    is_kept[[0, *(label for label in labels if label < len(is_kept))]] = True
    arcs = np.flatnonzero(is_kept[fst.olabel])
    columns = (fst.src[arcs], fst.dst[arcs], fst.ilabel[arcs], fst.cost[arcs], fst.olabel[arcs])
    return trimmed(Fst.from_arcs(fst.start, fst.final, *columns))
