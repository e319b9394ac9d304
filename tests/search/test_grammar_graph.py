"""Graphs that call each other: the same as the graph with all calls written out, and grammars that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst, Reader
from nnet3.options import SearchOptions
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.grammar_graph import Grammar, GrammarGraph, read_grammar
from nnet3.speech.search.search_graph import SearchGraph
from tests.asr.grammar_bytes import grammar_bytes
from tests.search.random_grammars import BEGIN, BOS, LABELS, NAME, ROWS, Builder, label, random_grammar, written_out
from tests.seeds import RANDOM

WIDE = SearchOptions(beam=1000, lattice_beam=5)


def _graph(grammar: Grammar) -> GrammarGraph:
    return GrammarGraph(grammar, np.arange(-1, LABELS - 1))


@pytest.mark.parametrize("example", range(8))
@pytest.mark.parametrize("calls_itself", [False, True])
def test_the_same_as_with_all_calls_written_out(example: int, calls_itself: bool) -> None:
    grammar = random_grammar(calls_itself)
    graph = _graph(read_grammar(Reader(grammar_bytes(grammar), "g.fst")))
    whole = SearchGraph(written_out(grammar, ROWS + 1), np.arange(-1, LABELS - 1))
    for rows in (ROWS, ROWS // 2):  # the second search finds states that are there
        scores = RANDOM.normal(size=(rows, LABELS - 1)).astype(np.float32)
        searches = [BeamSearch(each.begin(), WIDE) for each in (whole, graph)]
        for search in searches:
            search.advance(scores)
        expected, found = (search.best_path(use_final=True) for search in searches)
        assert (expected is None) == (found is None)
        if expected is not None and found is not None:
            assert found.cost == pytest.approx(expected.cost, rel=1e-5)
            assert np.array_equal(found.transition_ids, expected.transition_ids)
            assert np.array_equal(found.words, expected.words)
        assert [len(search.tokens.last.state) for search in searches] == 2 * [len(searches[0].tokens.last.state)]


def test_grammars_that_cannot_be() -> None:
    grammar = random_grammar()
    with pytest.raises(ModelFormatError, match="input label 4, but the model has 1 trans"):
        GrammarGraph(grammar, np.arange(-1, 1))
    mixed = Builder()
    mixed.arc(mixed.words(mixed.state()), mixed.state(), label(NAME, 1))
    with pytest.raises(ModelFormatError, match="has arcs to other graphs and ordinary ones"):
        _graph(grammar._replace(top=mixed.fst()))
    twice = Builder()
    twice.entered(BEGIN, (1, 1))
    with pytest.raises(ModelFormatError, match="two ways into a graph behind the same phone"):
        _graph(grammar._replace(parts={NAME: twice.fst()}))


@pytest.mark.parametrize("fault", ["lacking", "phone", "returning"])
def test_what_only_a_search_finds(fault: str) -> None:
    top, name = Builder(), Builder()
    if fault == "returning":
        top.leave(top.words(top.state()))
    else:
        top.call(top.words(top.state()), NAME)
    name.leave(name.words(name.entered(BEGIN, (1, 2))[1]))
    parts = {} if fault == "lacking" else {NAME: name.fst()}
    messages = {
        "lacking": "no graph for nonterminal 54",
        "phone": "no way into a graph",
        "returning": "returns from it",
    }
    search = BeamSearch(_graph(Grammar(BOS, top.fst(), parts)), WIDE)
    with pytest.raises(ModelFormatError, match=messages[fault]):
        search.advance(np.zeros((5, LABELS - 1), np.float32))


def test_damaged_files() -> None:
    good = grammar_bytes(random_grammar())
    for size in range(0, len(good), 97):
        with pytest.raises(ModelFormatError):
            read_grammar(Reader(good[:size], "g.fst"))
    for contents, message in (
        (good + b"more", "the file should end here"),
        (good[2:], "binary form"),
        (good.replace(b"<GrammarFst> \4\1", b"<GrammarFst> \4\2"), "format 1, got 2"),
        (good.replace(b"\4\x36\0\0\0", b"\4\x35\0\0\0"), "another nonterminal, got that of 53"),
    ):
        with pytest.raises(ModelFormatError, match=message):
            read_grammar(Reader(contents, "g.fst"))
    with pytest.raises(ModelFormatError, match="top graph of the grammar is empty"):
        read_grammar(Reader(grammar_bytes(random_grammar()._replace(top=Fst.empty())), "g.fst"))
    with pytest.raises(ModelFormatError, match="nonterm_bos behind the phones, got 1"):
        read_grammar(Reader(grammar_bytes(random_grammar()._replace(first_symbol=1)), "g.fst"))
