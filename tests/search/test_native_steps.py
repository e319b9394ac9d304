"""The steps of a search in C: tokens, links, lattices and errors are those of NumPy to the last bit."""

from __future__ import annotations

import copy
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from nnet3.base.native.library import library
from nnet3.errors import ExecutionError
from nnet3.kaldi_io import Fst
from nnet3.options import SearchOptions
from nnet3.speech.search import beam_search
from nnet3.speech.search.array_steps import ArraySteps
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.composition import LookaheadSearch
from nnet3.speech.search.native_steps import NativeSteps, token_steps
from nnet3.speech.search.search_graph import SearchGraph
from nnet3.speech.search.token_rows import TokenRows
from nnet3.speech.search.tokens import Links, TokenRow, TokenSteps
from tests.asr.slow_search import random_graph
from tests.asr.toy_lookahead import LABELS, bigram, lookahead_graph, random_scores
from tests.native.native_code import needs_native_code
from tests.seeds import RANDOM

pytestmark = needs_native_code


def _native() -> NativeSteps:
    steps = token_steps()
    assert isinstance(steps, NativeSteps)
    return steps


def _same(one: TokenRow, other: TokenRow) -> None:
    for field in fields(TokenRow):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, Links):
            for name in ("src", "dst", "arc", "cost"):
                assert getattr(mine, name).tolist() == getattr(theirs, name).tolist(), (field.name, name)
        else:
            assert np.array_equal(mine, theirs), field.name


def _both(graphs: list[Any], options: SearchOptions, monkeypatch: pytest.MonkeyPatch) -> list[BeamSearch]:
    """Two searches, in C and with NumPy."""
    searches = []
    chosen: list[TokenSteps] = [_native(), ArraySteps()]
    for steps, graph in zip(chosen, graphs, strict=True):
        monkeypatch.setattr(beam_search, "token_steps", lambda steps=steps: steps)
        searches.append(BeamSearch(graph, options))
    return searches


def _compare(searches: list[BeamSearch], scores: np.ndarray) -> None:
    for row in scores:
        for search in searches:
            search.advance(row[None])
        for mine, theirs in zip(*(search.tokens._rows for search in searches), strict=True):
            _same(mine, theirs)
    mine, theirs = (search.lattice(first=search.tokens.first) for search in searches)
    assert (mine is None) == (theirs is None)
    if mine is not None and theirs is not None:
        assert np.array_equal(mine.cost, theirs.cost)
        assert np.array_equal(mine.graph_state, theirs.graph_state)


def _options() -> SearchOptions:
    draw = RANDOM.random
    return SearchOptions(
        beam=float(1 + 15 * draw()),
        max_active=int(RANDOM.integers(3, 60)),
        min_active=int(RANDOM.integers(0, 3)),
        lattice_beam=float(0.5 + 8 * draw()),
        prune_interval=int(RANDOM.integers(1, 7)),
    )


def _rough(scores: np.ndarray) -> np.ndarray:
    """Scores of which many are equal, so that ties are common."""
    return (np.round(2 * scores) / 2).astype(np.float32)


@pytest.mark.parametrize("states", [1, 5, 40, 700, 3000])
def test_rows_of_a_whole_graph(states: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for example in range(6):
        fst = random_graph(RANDOM, states, labels=6)
        if example % 2:
            fst.cost[:] = np.round(fst.cost)
        graph = SearchGraph(fst, np.append(-1, RANDOM.permutation(6)) if example == 3 else None)
        scores = (3 * RANDOM.normal(size=(25, 6))).astype(np.float32)
        _compare(_both([graph, graph], _options(), monkeypatch), _rough(scores) if example % 2 else scores)


def test_tokens_of_a_bucket_are_visited_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Kaldi's hash list of 1,000 buckets, where state 1001 shares a bucket with state 1."""
    reached = [1, 2, 1001]
    offsets = np.array([0, 3, 4, 5, *[5] * 998, 6])
    dst = np.array([*reached, 0, 0, 0], np.int32)
    labels, final = np.ones(6, np.int32), np.zeros(1002, np.float32)
    graph = SearchGraph(Fst(0, final, offsets, labels, np.zeros(6, np.int32), np.zeros(6, np.float32), dst))
    for search in _both([graph, graph], SearchOptions(), monkeypatch):
        search.advance(np.zeros((2, 1), np.float32))
        _, first, second = search.tokens._rows
        assert first.state.tolist() == reached
        assert first.state[second.emitting.src].tolist() == [1, 1001, 2]


def test_rows_of_a_graph_that_is_made_in_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """States have the same numbers, so they are made in the same order."""
    for _ in range(6):
        made = LookaheadSearch(lookahead_graph(), bigram(), np.arange(-1, LABELS))
        searches = _both([made._new(), made._new()], _options(), monkeypatch)
        _compare(searches, _rough(random_scores(12)))
        assert searches[0].graph.num_states == searches[1].graph.num_states
        assert searches[0].graph.ilabel.tolist() == searches[1].graph.ilabel.tolist()


def test_pruned_once_more_after_rows_were_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = SearchGraph(random_graph(RANDOM, 30))
    searches = _both([graph, graph], SearchOptions(beam=9, lattice_beam=3, prune_interval=4), monkeypatch)
    for _ in range(6):
        _compare(searches, (2 * RANDOM.normal(size=(7, 4))).astype(np.float32))
        for search in searches:
            search.forget(search.num_rows - 2, graph)


def test_links_that_stay() -> None:
    """Also with other excesses behind a row than a search would have left there, and with infinite ones."""
    graph = SearchGraph(random_graph(RANDOM, 60))
    steps = _native()
    row = steps.first(graph, 12.0)
    for _ in range(12):
        following = steps.next(graph, row, (2 * RANDOM.normal(size=4)).astype(np.float32), np.inf, 9.0)
        row.excess, following.excess = (RANDOM.exponential(size=len(each.state)) for each in (row, following))
        following.excess[RANDOM.random(len(following.excess)) < 0.2] = np.inf
        for beam in (0.3, 2.0, 8.0):
            found, expected = steps.kept_links(row, following, beam), ArraySteps().kept_links(row, following, beam)
            assert found.has_changed == expected.has_changed
            for mine, theirs in zip(found[:3], expected[:3], strict=True):
                assert np.array_equal(mine, theirs)
        row = following


def test_a_row_without_tokens_and_one_after_it() -> None:
    graph = SearchGraph(Fst.from_arcs(0, [np.inf, 0], [0], [1], [1], [0.0], [1]))
    for steps in (_native(), ArraySteps()):
        rows = TokenRows(graph, steps.first(graph, 5.0), steps)
        for tokens in (1, 0, 0):
            rows.append(steps.next(graph, rows.last, np.zeros(1, np.float32), np.inf, 5.0))
            assert len(rows.last.state) == tokens


def test_a_cycle_that_never_ends() -> None:
    loop = SearchGraph(Fst.from_arcs(0, [0.0, 0.0], [0, 1], [1, 0], [0, 0], [-1.0, 0.5], [0, 0]))
    for steps in (_native(), ArraySteps()):
        with pytest.raises(ExecutionError, match="a cycle of epsilons with a negative cost"):
            steps.first(loop, 10.0)


def test_memory_that_c_does_not_get() -> None:
    steps = _native()
    functions = copy.copy(library())
    assert functions is not None
    graph = SearchGraph(random_graph(RANDOM, 5))

    class NoRow:
        """The library without memory for a row."""

        def __getattr__(self, name: str) -> Any:
            return (lambda *_: None) if name == "nnet3_row_begin" else getattr(functions, name)

    steps = NativeSteps(NoRow())  # type: ignore[arg-type]
    with pytest.raises(MemoryError):
        steps.first(graph, 10.0)


def test_without_native_code_numpy_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3.speech.search.native_steps.library", lambda: None)
    assert isinstance(token_steps(), ArraySteps)
