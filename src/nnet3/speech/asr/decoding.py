"""Makes words of scores: decoding graphs of all kinds, the search of a segment, and its results."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.files import map_file
from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.graph_file import load_graph
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.symbols import SymbolTable, load_symbols
from nnet3.base.options.recognizer import DecodingOptions
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.asr.model_folder import GraphFiles
from nnet3.speech.asr.vosk_json import SpokenText, TextAlternative, TimedWord
from nnet3.speech.language_models.graph_words import check_words
from nnet3.speech.language_models.language_model import model_of_graph, phrase_model
from nnet3.speech.lattices.bayes_risk import HeardWord, words_of_lattice
from nnet3.speech.lattices.growing_lattice import GrowingLattice
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.lattice_path import LatticePath, best_paths
from nnet3.speech.lattices.word_lattice import PhoneLabels, narrowed_notices
from nnet3.speech.lattices.word_times import WordBoundaries, rows_of_states
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.composition import Composition, LookaheadGraph, LookaheadSearch
from nnet3.speech.search.mapped_fst import map_or_read
from nnet3.speech.search.search_graph import SearchGraph

if TYPE_CHECKING:
    from nnet3.speech.asr.model_rescoring import Rescoring

_LOG = logging.getLogger("nnet3")
_GRAPH_SCALE = 0.9  # of costs of the graph in a result, as in Vosk
_MOST_ROWS = 1000  # that wait for a piece of the lattice with few tokens at its end, or for a first word


@dataclass(frozen=True, eq=False)
class DecodingGraph:
    """A graph from transition-ids to all words that may be said; made by `load`, or by `with_phrases` of another."""

    search: SearchGraph | LookaheadSearch
    words: SymbolTable
    boundaries: WordBoundaries | None
    phones: PhoneLabels

    @classmethod
    def load(cls, files: GraphFiles, model: TransitionModel) -> DecodingGraph:
        """Reads the graph of `files` in a model directory. Raises ModelFormatError for the graph of another model."""
        columns = model.pdf_of_label
        phones = PhoneLabels(model)
        boundaries = None if files.word_boundary is None else WordBoundaries.load(files.word_boundary, model)
        if not files.is_lookahead:
            graph = SearchGraph.read(_reader(files.files["HCLG.fst"]), columns)
            return cls(graph, _words(files, graph.output_symbols), boundaries, phones)
        grammar = load_graph(files.files["Gr.fst"])
        ahead = load_lookahead(files.files["HCLr.fst"], files.files["disambig_tid.int"])
        search = LookaheadSearch(ahead, model_of_graph(grammar), columns)
        return cls(search, _words(files, grammar.output_symbols), boundaries, phones)

    @property
    def fst(self) -> Fst:
        """The graph from transition-ids to words; that for look-ahead, without the language model."""
        return self.search.fst

    @property
    def takes_phrases(self) -> bool:
        """True if the words can be exchanged for those of phrases."""
        return isinstance(self.search, LookaheadSearch)

    def with_phrases(self, phrases: Sequence[str]) -> tuple[DecodingGraph, list[str]]:
        """Returns the graph of some phrases, in any order and in parts, and the words unknown to the model.

        A phrase without a known word counts as one without words; if all phrases are, nothing can be heard. Raises
        ArgumentError if the words of the graph cannot be exchanged, or if the list of phrases is empty.
        """
        if not isinstance(self.search, LookaheadSearch):
            raise ArgumentError(
                "this model has one graph of all words: a grammar needs a model with HCLr.fst and Gr.fst"
            )
        labels = self.words.labels
        split = [[(word, labels.get(word, 0)) for word in phrase.split(" ") if word] for phrase in phrases]
        unknown = sorted({word for phrase in split for word, label in phrase if label <= 0})
        model = phrase_model([label for _, label in phrase if label > 0] for phrase in split)
        return replace(self, search=self.search.with_model(model)), unknown

    def warn_once(self, message: str) -> None:
        """Warns, unless this graph has had the warning."""
        if message not in self._warnings:
            self._warnings.add(message)
            _LOG.warning("%s", message)

    @cached_property
    def _warnings(self) -> set[str]:
        return set()

    def start(self, options: DecodingOptions) -> Segment:
        """Returns the search of a new segment, for rows of scores."""
        return Segment(self, options)


class Segment:
    """The search of one segment, fed with rows of scores.

    The lattice is made in pieces while rows come, as in Vosk: rows already in the lattice are forgotten.
    """

    def __init__(self, graph: DecodingGraph, options: DecodingOptions):
        self.graph, self.options = graph, options
        self.search = BeamSearch(graph.search.begin(), options)
        self._lattice = GrowingLattice(options.lattice_beam, graph.phones, options.max_mem or np.inf)
        self._settled: DecodedSegment | None = None  # of the lattice as it is, once it was asked for

    def accept(self, scores: npt.NDArray[np.float32]) -> None:
        """Takes scores (rows, pdfs), scaled log-likelihoods."""
        self.search.advance(scores)
        waiting = self.search.num_rows - self._lattice.num_rows
        if waiting >= self.options.determinize_max_delay:
            self._grow(waiting)

    def _grow(self, waiting: int) -> None:
        """Takes rows into the lattice, up to where fewest tokens are left, unless these are many still."""
        if not len(self.search.tokens.last.state):  # nothing fits any more
            return
        self.search.prune()
        first = self._lattice.num_rows + self.options.determinize_min_chunk_size
        tokens = self.search.tokens.num_tokens(first)
        if tokens.min() > self.options.determinize_max_active and waiting < _MOST_ROWS:
            return
        last = self.search.num_rows - int(np.argmin(tokens[::-1]))
        self._lattice.add(self.search.tokens.piece(self._lattice.first_row, last))
        self._settled = None
        if last > _MOST_ROWS:
            self._lattice.close_start()
        if self._lattice.first_row:
            before = self.search.graph
            self.search.forget(last, self.graph.search.begin())
            now = self.search.graph
            if now is not before and isinstance(now, Composition) and isinstance(before, Composition):
                self._lattice.rename_tokens(partial(now.adopted, before))

    def trace(
        self, first: int = 0, use_final: bool = False
    ) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]] | None:
        """Returns the best path so far from row `first` on: transition-ids and source states, (rows,) each."""
        return self.search.newest(first, use_final)

    @property
    def notices(self) -> list[str]:
        """The beams that were narrowed because memory did not suffice."""
        return self.search.notices + narrowed_notices(self._lattice.narrowest, self.options.lattice_beam)

    def settled(self) -> DecodedSegment | None:
        """Returns the finished part of the lattice, without the later rows; None if no part is finished.

        Costs of the graph count in full, as in Vosk before the result.
        """
        if self._settled is None and self._lattice.num_rows:
            lattice = self._lattice.lattice(None)
            self._settled = None if lattice is None else DecodedSegment(self.graph, lattice, graph_scale=1.0)
        return self._settled

    def found(self, use_final: bool = True) -> DecodedSegment | None:
        """Returns the result so far; None if nothing fits the graph."""
        whole = self._lattice
        if self.search.num_rows > whole.num_rows or not whole.num_rows:
            raw = self.search.lattice(use_final, whole.first_row)
            if raw is None:
                return None
            whole = whole.with_piece(raw)
            self._lattice.narrowest = whole.narrowest
        can_end = use_final and self.search.can_end
        lattice = whole.lattice(self.search.graph.final if can_end else None)
        return None if lattice is None else DecodedSegment(self.graph, lattice)


@dataclass(frozen=True, eq=False)
class DecodedSegment:
    """A lattice of words, and its readings."""

    graph: DecodingGraph
    labelled: LabelLattice
    graph_scale: float = _GRAPH_SCALE  # of costs of the graph where risks and paths are compared

    @cached_property
    def lattice(self) -> Lattice:
        """The lattice in the form that tables have."""
        return self.labelled.lattice()

    def rescored(self, rescoring: Rescoring) -> DecodedSegment | None:
        """Returns the lattice with costs of other language models; None if the models accept no path."""
        found = rescoring.of(self.labelled)
        return None if found is None else replace(self, labelled=found)

    @cached_property
    def words(self) -> list[HeardWord]:
        """The words with the least risk, with times in rows and confidences.

        Words that do not fit their phones have the rows of their arcs, with a warning.
        """
        try:
            return words_of_lattice(self.labelled, self.graph.boundaries, self.graph_scale)
        except ModelFormatError as error:
            self.graph.warn_once(f"word_boundary.int is not used: {error}")
            return words_of_lattice(self.labelled, None, self.graph_scale)

    def alternatives(self, number: int) -> list[Alternative]:
        """Returns the best paths."""
        return n_best(self.lattice, number, self.graph_scale, self.graph.boundaries)

    def text(self, seconds_per_row: float, begin: float = 0.0, alternatives: int = 0) -> SpokenText:
        """Returns the words, and up to `alternatives` alternatives, with times in seconds; row 0 is at time `begin`."""

        def timed(label: int, first: float, end: float, confidence: float | None = None) -> TimedWord:
            start, over = begin + seconds_per_row * first, begin + seconds_per_row * end
            return TimedWord(self.graph.words[label], start, over, confidence)

        others = self.alternatives(alternatives) if alternatives else []
        listed = [TextAlternative([timed(*word) for word in each.words], -each.cost) for each in others]
        return SpokenText([timed(*word) for word in self.words], listed)


def load_lookahead(path: Path, disambiguation: Path) -> LookaheadGraph:
    """Reads a graph for look-ahead, and its input labels that take no row. Raises ModelFormatError."""
    graph = map_or_read(_reader(path))
    if graph.reach is None:
        raise ModelFormatError("expected an FST of type olabel_lookahead", str(path))
    return LookaheadGraph(graph.fst, graph.reach, _integers(disambiguation))


def _reader(path: Path) -> Reader:
    return Reader(map_file(path), str(path), binary=True)


def _words(files: GraphFiles, symbols: SymbolTable | None) -> SymbolTable:
    if symbols is not None:
        return symbols
    first = next(iter(files.files.values()))
    if files.words is None:
        raise ModelFormatError("the graph has no table of its words, and there is no words.txt beside it", str(first))
    check_words(first, files.words)
    return load_symbols(files.words)


def _integers(path: Path) -> npt.NDArray[np.integer]:
    words = bytes(map_file(path)).split()
    if not all(word.isdigit() and len(word) < 10 for word in words):
        raise ModelFormatError("expected integers separated by white space", str(path))
    return np.array([int(word) for word in words], np.int64)


class Alternative(NamedTuple):
    """A path: cost, and words with first row and the row behind."""

    cost: float
    words: list[tuple[int, int, int]]


def n_best(
    lattice: Lattice, number: int, graph_scale: float = 1.0, boundaries: WordBoundaries | None = None
) -> list[Alternative]:
    """Returns the best paths, the best one first; all have different words if the lattice comes from `word_lattice`."""
    rows = rows_of_states(lattice)
    found = best_paths(lattice, number, graph_scale)
    return [Alternative(path.cost, _timed(path, rows, boundaries)) for path in found]


def _timed(path: LatticePath, rows: Integers, boundaries: WordBoundaries | None) -> list[tuple[int, int, int]]:
    """Returns the words of a path with their rows; without boundaries a word goes on to the next one, as in Vosk."""
    fst = path.lattice.fst
    spoken = path.arcs[fst.ilabel[path.arcs] > 0]
    edges = np.append(rows[fst.src[spoken]], len(path.transition_ids))
    edges[:1] = 0
    begin, end = edges[:-1], edges[1:]
    if boundaries is not None and len(spoken):
        ids = np.tile(path.transition_ids, (len(spoken), 1))
        found, behind = boundaries.words(ids, np.arange(len(spoken)))
        begin, end = np.where(found >= 0, found, begin), np.where(found >= 0, behind, end)
    return list(zip(fst.ilabel[spoken].tolist(), begin.tolist(), end.tolist(), strict=True))
