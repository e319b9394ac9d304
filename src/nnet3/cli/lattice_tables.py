"""Decodes tables of utterances: scores, the search, lattices, words and alignments."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_file import open_fst_table
from nnet3.base.kaldi_io.graph_file import read_graph
from nnet3.base.kaldi_io.lattice_file import lattice_writer
from nnet3.base.kaldi_io.load import open_rxfilename
from nnet3.base.kaldi_io.specifiers import NO_TABLE, check_different, is_table
from nnet3.base.kaldi_io.symbols import SymbolTable, load_symbols
from nnet3.base.kaldi_io.table_values import int_vector_writer, random_access_matrices
from nnet3.base.options.utterances import PrecisionOptions
from nnet3.cli.compute_tables import (
    ComputedTables,
    MissingError,
    ResultWriter,
    Runner,
    Utterance,
    compute_share,
    conclude,
    on_device,
)
from nnet3.cli.files import load_acoustic_model, load_transitions
from nnet3.cli.messages import say, say_words
from nnet3.errors import Nnet3Error
from nnet3.inference.scores import Scoring, log_priors
from nnet3.model.nnet import Nnet
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.asr.decoding import load_lookahead
from nnet3.speech.language_models.graph_words import check_words
from nnet3.speech.language_models.language_model import model_of_graph
from nnet3.speech.search.composition import LookaheadSearch
from nnet3.speech.search.grammar_graph import GrammarGraph, read_grammar
from nnet3.speech.search.growing_graph import GrowingGraph
from nnet3.speech.search.search_graph import SearchGraph
from nnet3.speech.search.utterance_decoder import DecodedUtterance, UtteranceDecoder

Graph = SearchGraph | GrowingGraph
Graphs = Callable[[str], Callable[[], Graph]]
"""Returns what makes the graph of an utterance; asked for in the order of utterances."""


@dataclass(frozen=True)
class DecodedTables:
    """Specifiers of the graph, or of graphs by utterance, and of outputs; words and alignments may be "".

    `read` reads a graph for all utterances: name of the file, and the column of the scores of each input label.
    """

    graph: str
    lattices: str
    words: str
    alignments: str
    word_symbol_table: str | None
    read: Callable[[str, Integers], SearchGraph | GrowingGraph | LookaheadSearch] | None = None


def read_search_graph(name: str, columns: Integers) -> SearchGraph:
    """Reads a graph such as HCLG.fst."""
    return SearchGraph.read(open_rxfilename(name), columns)


def read_grammar_graph(name: str, columns: Integers) -> GrammarGraph:
    """Reads a grammar of make-grammar-fst."""
    return GrammarGraph(read_grammar(open_rxfilename(name)), columns)


def read_lookahead_search(name: str, columns: Integers, grammar: str, disambiguation: str) -> LookaheadSearch:
    """Reads a graph for look-ahead, HCLr.fst, and the grammar it is composed with in the search."""
    ahead = load_lookahead(Path(name), Path(disambiguation))
    return LookaheadSearch(ahead, model_of_graph(read_graph(open_rxfilename(grammar))), columns)


def decode_tables(
    tables: DecodedTables,
    inputs: ComputedTables,
    model: str,
    runner: Callable[[Nnet, Scoring], Runner],
    device: str,
    precision: PrecisionOptions,
    acoustic_scale: float,
    num_threads: int = 1,
    many_rows: bool = True,
    **search: Any,
) -> None:
    """Decodes all utterances; leaves failed utterances out, with a warning. Errors are those of `compute_tables`.

    `many_rows`: see `Nnet.pack`. `search` are the fields of an `UtteranceDecoder` without a parameter here.
    """
    acoustic = load_acoustic_model(model)
    decoder = UtteranceDecoder(acoustic.transition_model, acoustic_scale=acoustic_scale, **search)
    network = on_device(acoustic.nnet, device, precision, many_rows=many_rows)
    scores = runner(network, Scoring(log_priors(acoustic), acoustic_scale))
    _decode(tables, inputs, decoder, scores, num_threads)


def decode_matrices(tables: DecodedTables, matrices: str, model: str, acoustic_scale: float, **search: Any) -> None:
    """Decodes matrices of log-likelihoods, (frames, pdfs), with the transition model that a file begins with.

    Errors are those of `decode_tables`.
    """
    transitions = load_transitions(model)

    def scores(utterances: Iterable[Utterance]) -> Iterator[tuple[str, Tensor | Nnet3Error]]:
        for key, rows, *_ in utterances:
            if rows.shape[1] == transitions.num_pdfs:
                yield key, torch.from_numpy(rows) * acoustic_scale
            else:
                yield key, Nnet3Error(f"it has {rows.shape[1]} columns, the model {transitions.num_pdfs} pdfs")

    decoder = UtteranceDecoder(transitions, acoustic_scale=acoustic_scale, **search)
    _decode(tables, ComputedTables(matrices, tables.lattices), decoder, scores, 1)


def _decode(
    tables: DecodedTables, inputs: ComputedTables, decoder: UtteranceDecoder, scores: Runner, num_threads: int
) -> None:
    check_different(tables.lattices, tables.words, tables.alignments)
    symbols = None if tables.word_symbol_table is None else load_symbols(tables.word_symbol_table)
    if tables.word_symbol_table is not None and os.path.isfile(tables.graph):
        check_words(Path(tables.graph), Path(tables.word_symbol_table))
    if is_table(tables.graph) and tables.read is None:
        features = _GraphedFeatures(tables.graph, inputs.features, decoder.model.pdf_of_label)
        inputs = replace(inputs, opened=lambda _: features)
        graphs: Graphs = features.graph
    else:
        graph = (tables.read or read_search_graph)(tables.graph, decoder.model.pdf_of_label)
        graphs = _one_graph(graph.begin)
    inputs = replace(inputs, writer=lambda *_: _Outputs(tables))
    decoding = _Decoding(scores, graphs, decoder, symbols, num_threads)
    tally = compute_share(inputs, decoding)
    if decoding.rows:
        mean = -decoding.cost / decoding.rows
        say(f"Overall log-likelihood per frame is {mean:g} over {decoding.rows} frames.")
    conclude(inputs, tally)


def _one_graph(begin: Callable[[], Graph]) -> Graphs:
    """Returns a function that gives all utterances one graph."""
    return lambda _: begin


class _GraphedFeatures:
    """The features of utterances with graphs, in the order of the graphs."""

    def __init__(self, graphs: str, features: str, column_of_label: np.ndarray):
        self._graphs, self._features = open_fst_table(graphs), random_access_matrices(features)
        self._columns, self._read = column_of_label, deque[tuple[str, Fst]]()

    def __enter__(self) -> _GraphedFeatures:
        return self

    def __exit__(self, *exception: object) -> None:
        self._graphs.close()

    def leave_out(self, is_left_out: Callable[[str], bool]) -> None:
        self._graphs.leave_out(is_left_out)

    def __next__(self) -> tuple[str, np.ndarray]:
        key, fst = next(self._graphs)
        if key not in self._features:
            raise MissingError(f"utterance '{key}' left out: no features for it")
        features = self._features[key]
        self._read.append((key, fst))
        return key, features

    def graph(self, key: str) -> Callable[[], SearchGraph]:
        """Returns a function that makes the graph of an utterance; earlier utterances, left out, are forgotten."""
        while True:
            of, fst = self._read.popleft()
            if of == key:
                return partial(SearchGraph, fst, self._columns)


class _Outputs:
    """The tables to write: lattices, and words and alignments if wanted."""

    def __init__(self, tables: DecodedTables):
        with ExitStack() as opened:
            self._lattices = opened.enter_context(lattice_writer(tables.lattices))
            self._words = opened.enter_context(int_vector_writer(tables.words or NO_TABLE))
            self._alignments = opened.enter_context(int_vector_writer(tables.alignments or NO_TABLE))
            opened.pop_all()
        self._all: tuple[ResultWriter, ...] = (self._lattices, self._words, self._alignments)
        self.count = 0

    @property
    def makes_files(self) -> bool:
        return self._lattices.makes_files

    def write(self, key: str, found: DecodedUtterance) -> None:
        self._lattices.write(key, found.lattice)
        self._words.write(key, found.words)
        self._alignments.write(key, found.transition_ids)
        self.count += 1

    def close(self) -> None:
        with self._all_or_none():
            for writer in self._all:
                writer.close()

    def keep(self) -> str:
        with self._all_or_none():
            return ", ".join(name for writer in self._all if (name := writer.keep()) != os.devnull)

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        for writer in self._all:
            writer.discard()


class _Decoding:
    """Decodes utterances in order, several at once; says what the likelihood of each is, and adds up costs and rows."""

    def __init__(
        self, scores: Runner, graphs: Graphs, decoder: UtteranceDecoder, symbols: SymbolTable | None, num_threads: int
    ):
        self._scores, self._graphs, self._decoder, self._symbols = scores, graphs, decoder, symbols
        self._num_threads, self.cost, self.rows = num_threads, 0.0, 0

    def __call__(self, utterances: Iterable[Utterance]) -> Iterator[tuple[str, Any]]:
        waiting = deque[tuple[str, Future[DecodedUtterance | Nnet3Error]]]()
        with ThreadPoolExecutor(self._num_threads) as threads:
            for key, scores in self._scores(utterances):
                waiting.append((key, threads.submit(self._decode, self._graphs(key), scores)))
                while len(waiting) > self._num_threads:
                    yield self._told(*waiting.popleft())
            while waiting:
                yield self._told(*waiting.popleft())

    def _decode(self, graph: Callable[[], Graph], scores: Tensor | Nnet3Error) -> DecodedUtterance | Nnet3Error:
        if isinstance(scores, Nnet3Error):
            return scores
        try:
            return self._decoder.decode(graph(), np.asarray(scores.float().cpu()))
        except Nnet3Error as error:
            return error

    def _told(self, key: str, waiting: Future[DecodedUtterance | Nnet3Error]) -> tuple[str, Any]:
        found = waiting.result()
        if isinstance(found, Nnet3Error):
            return key, found
        for notice in found.notices:
            say(f"warning: utterance '{key}': {notice}")
        if not found.has_ended:
            say(f"warning: utterance '{key}': no path reached a final state of the graph, the output is partial")
        if self._symbols is not None:
            say_words(key, found.words, self._symbols)
        say(f"Log-like per frame for utterance {key} is {-found.cost / len(found):g} over {len(found)} frames.")
        self.cost, self.rows = self.cost + found.cost, self.rows + len(found)
        return key, found
