"""From scores to words: decoding graphs of all kinds, the search of a segment, and what was found in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nnet3.asr.bayes_risk import HeardWord, least_risk_words
from nnet3.asr.beam_search import BeamSearch
from nnet3.asr.composition import LookaheadSearch
from nnet3.asr.grammar import phrase_model
from nnet3.asr.language_model import BackoffModel
from nnet3.asr.lookahead import LookaheadGraph
from nnet3.asr.model_folder import GraphFiles
from nnet3.asr.n_best import Alternative, n_best
from nnet3.asr.search_graph import SearchGraph
from nnet3.asr.vosk_json import SpokenText, TextAlternative, TimedWord
from nnet3.asr.word_lattice import word_lattice
from nnet3.asr.word_times import WordBoundaries, word_times
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.hmm import TransitionModel
from nnet3.kaldi_io.files import map_file
from nnet3.kaldi_io.graph_file import GraphFile, load_graph
from nnet3.kaldi_io.lattice import Lattice
from nnet3.kaldi_io.symbols import SymbolTable, load_symbols
from nnet3.options import DecodingOptions

_GRAPH_SCALE = 0.9  # of costs where risks are compared
_BEYOND = 2.0  # the beam of the lattice: words that lie within it one by one, but not together, count for risks


@dataclass(frozen=True, eq=False)
class DecodingGraph:
    """What may be said, as a graph from transition-ids to words; made by `load`, or by `with_phrases` of another."""

    search: SearchGraph | LookaheadSearch
    words: SymbolTable
    boundaries: WordBoundaries | None

    @classmethod
    def load(cls, files: GraphFiles, model: TransitionModel) -> DecodingGraph:
        """Reads the graph of a model directory. Raises ModelFormatError for one of another model."""
        columns = np.append(-1, model.pdf(np.arange(1, model.num_transition_ids + 1)))
        boundaries = None if files.word_boundary is None else WordBoundaries.load(files.word_boundary, model)
        if not files.is_lookahead:
            graph = load_graph(files.files["HCLG.fst"])
            return cls(SearchGraph(graph.fst, columns), _words(files, graph), boundaries)
        grammar = load_graph(files.files["Gr.fst"])
        search = LookaheadSearch(_load_lookahead(files), BackoffModel(grammar.fst), columns)
        return cls(search, _words(files, grammar), boundaries)

    @property
    def takes_phrases(self) -> bool:
        """True if the words can be exchanged for those of phrases."""
        return isinstance(self.search, LookaheadSearch)

    def with_phrases(self, phrases: Sequence[str]) -> tuple[DecodingGraph, list[str]]:
        """Returns the graph of some phrases, in any order and in parts, and the words that the model does not know.

        Raises ArgumentError if the graph is one whose words cannot be exchanged, or if no word is known.
        """
        if not isinstance(self.search, LookaheadSearch):
            raise ArgumentError(
                "this model has one graph of all words: a grammar needs a model with HCLr.fst and Gr.fst"
            )
        labels = self.words.labels
        split = [[word for word in phrase.split(" ") if word] for phrase in phrases]
        unknown = sorted({word for phrase in split for word in phrase if word not in labels})
        known = [[labels[word] for word in phrase if word in labels] for phrase in split]
        model = phrase_model(phrase for phrase in known if phrase)
        return replace(self, search=self.search.with_model(model)), unknown

    def start(self, options: DecodingOptions) -> Segment:
        """Begins to search a segment."""
        return Segment(self, options)


class Segment:
    """The search of one segment, fed with rows of scores."""

    def __init__(self, graph: DecodingGraph, options: DecodingOptions):
        self.graph, self.options = graph, options
        self.search = BeamSearch(graph.search.begin(), options)
        self._of_lattice: list[str] = []

    def accept(self, scores: npt.NDArray[np.float32]) -> None:
        """Takes scores (rows, pdfs), scaled log-likelihoods."""
        self.search.advance(scores)

    def trace(self) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]] | None:
        """Returns the best path so far, the transition-id of each row and the state that it leaves: (rows,) each."""
        path = self.search.best_path()
        return None if path is None else (path.transition_ids, path.states)

    @property
    def notices(self) -> list[str]:
        """What was narrowed because memory did not suffice."""
        return self.search.notices + self._of_lattice

    def found(self, use_final: bool = True) -> DecodedSegment | None:
        """Returns what was found so far; None if nothing fits the graph."""
        lattice = self.search.lattice(use_final)
        if lattice is None:
            return None
        beam = self.options.lattice_beam
        found = word_lattice(lattice, beam + _BEYOND, self.options.max_mem or np.inf)
        self._of_lattice = found.notices(beam)
        return DecodedSegment(self.graph, found.lattice)


@dataclass(frozen=True, eq=False)
class DecodedSegment:
    """A lattice of words, and what can be read off it."""

    graph: DecodingGraph
    lattice: Lattice

    @cached_property
    def words(self) -> list[HeardWord]:
        """The words with the least risk, with times in rows and confidences."""
        times = word_times(self.lattice, self.graph.boundaries)
        return least_risk_words(self.lattice, times, _GRAPH_SCALE)

    def alternatives(self, number: int) -> list[Alternative]:
        """The best paths."""
        return n_best(self.lattice, number, _GRAPH_SCALE, self.graph.boundaries)

    def text(self, seconds_per_row: float, begin: float = 0.0, alternatives: int = 0) -> SpokenText:
        """Returns the words as text, with times in seconds; the segment begins at `begin`."""

        def timed(label: int, first: float, end: float, confidence: float | None = None) -> TimedWord:
            start, over = begin + seconds_per_row * first, begin + seconds_per_row * end
            return TimedWord(self.graph.words[label], start, over, confidence)

        others = self.alternatives(alternatives) if alternatives else []
        listed = [TextAlternative([timed(*word) for word in each.words], -each.cost) for each in others]
        return SpokenText([timed(*word) for word in self.words], listed)


def _load_lookahead(files: GraphFiles) -> LookaheadGraph:
    path = files.files["HCLr.fst"]
    graph = load_graph(path)
    if graph.reach is None:
        raise ModelFormatError("expected an FST of type olabel_lookahead", str(path))
    return LookaheadGraph(graph.fst, graph.reach, _integers(files.files["disambig_tid.int"]))


def _words(files: GraphFiles, graph: GraphFile) -> SymbolTable:
    if graph.output_symbols is not None:
        return graph.output_symbols
    if files.words is None:
        raise ModelFormatError("the graph has no table of its words, and there is no words.txt beside it")
    return load_symbols(files.words)


def _integers(path: Path) -> npt.NDArray[np.integer]:
    words = bytes(map_file(path)).split()
    if not all(word.isdigit() and len(word) < 10 for word in words):
        raise ModelFormatError("expected integers separated by white space", str(path))
    return np.array([int(word) for word in words], np.int64)
