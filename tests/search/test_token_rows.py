"""Tokens that are forgotten, and that move to another composition: the search goes on as if nothing was."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.options import DecodingOptions
from nnet3.speech.lattices import levels
from nnet3.speech.lattices.raw_lattice import RawLattice
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.composition import LookaheadSearch
from nnet3.speech.search.search_graph import SearchGraph
from tests.asr.slow_search import paths_of, random_graph
from tests.asr.toy_lookahead import LABELS, bigram, lookahead_graph, random_scores
from tests.native.native_code import needs_native_code
from tests.seeds import RANDOM

OPTIONS = DecodingOptions(beam=1000, lattice_beam=4, prune_interval=3)


def _same(one: BeamSearch, other: BeamSearch) -> None:
    for use_final in (False, True):
        a, b = one.best_path(use_final), other.best_path(use_final)
        assert a is not None
        assert b is not None
        assert a.cost == b.cost
        assert np.array_equal(a.transition_ids, b.transition_ids)
        assert np.array_equal(a.words, b.words)
        assert np.array_equal(a.word_rows, b.word_rows)
        if not use_final:
            first = int(RANDOM.integers(one.num_rows + 2))
            ids, states = other.newest(first) or ((), ())
            assert np.array_equal(ids, a.transition_ids[first:])
            assert np.array_equal(states, b.states[first:])
    assert one.relative_cost == other.relative_cost


def test_the_best_path_is_the_same_when_rows_are_forgotten() -> None:
    for _ in range(6):
        graph = SearchGraph(random_graph(RANDOM, states=8))
        whole, short = BeamSearch(graph, OPTIONS), BeamSearch(graph, OPTIONS)
        for end in (2, 5, 9, 10, 17):
            scores = (2 * RANDOM.normal(size=(end - whole.num_rows, 4))).astype(np.float32)
            whole.advance(scores)
            short.advance(scores)
            whole.prune()
            short.prune()
            short.forget(int(RANDOM.integers(max(short.tokens.first, 1), end + 1)), graph)
            _same(whole, short)
            assert short.tokens.num_links <= whole.tokens.num_links


def test_the_lattice_behind_a_row_begins_with_what_the_tokens_cost() -> None:
    graph = SearchGraph(random_graph(RANDOM, states=6))
    search = BeamSearch(graph, DecodingOptions(beam=1000, lattice_beam=1000))
    search.advance(RANDOM.normal(size=(6, 4)).astype(np.float32))
    whole, rest = search.lattice(), search.lattice(first=3)
    assert whole is not None
    assert rest is not None
    assert rest.best_cost == pytest.approx(whole.best_cost)
    assert (rest.row_of_state[0], rest.num_rows) == (2, 6)
    lengths = {len(ids) for paths in paths_of(rest).values() for _, ids in paths}
    assert lengths == {3}


@needs_native_code
def test_what_a_beam_leaves_out_would_be_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without native code nothing is left out. Levels are numbered anew, in the same order."""
    for _ in range(12):
        search = BeamSearch(SearchGraph(random_graph(RANDOM, states=8)), OPTIONS)
        search.advance((2 * RANDOM.normal(size=(7, 4))).astype(np.float32))
        first, beam, ends = int(RANDOM.integers(2)) * 3, float(RANDOM.choice([0.5, 3.0])), len(search.tokens.last.state)
        final = np.where(RANDOM.random(ends) < 0.5, RANDOM.normal(size=ends), np.inf)
        final[0] = 0.0
        small = search.tokens.lattice(first, 7, final, True, beam)
        with monkeypatch.context() as patch:
            patch.setattr(levels, "library", lambda: None)
            whole = search.tokens.lattice(first, 7, final, True, beam)
            _same_lattice(small.pruned(beam), whole.pruned(beam))
        assert small.num_states <= whole.num_states
        assert whole.num_states == search.tokens.lattice(first, 7, final, True).num_states


def _same_lattice(one: RawLattice, other: RawLattice) -> None:
    for name in ("row_of_state", "src", "dst", "word", "transition_id", "graph_cost", "acoustic_cost", "final_graph"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert np.array_equal(one.graph_state, other.graph_state)
    assert np.array_equal(np.diff(one.level) > 0, np.diff(other.level) > 0)


class _Frame:
    """Tokens behind a row in the order in which they came, by their states, and the links that leave each."""

    def __init__(self, states: list[int]):
        self.links: dict[int, dict[int, tuple[int, int, float]]] = {
            state: {} for state in states
        }  # arc: row, dst, cost
        self.excess = dict.fromkeys(states, 0.0)
        self.counted, self.links_wait, self.tokens_wait = -1, True, True


def _take(frames: list[_Frame], search: BeamSearch) -> None:
    """Adds the newest row, which was not pruned, one link after the other."""
    last = search.tokens.last
    states, number = last.state.tolist(), len(frames)
    frames.append(_Frame(states))
    before = search.tokens._rows[-2].state.tolist() if number else []
    for links, of, sources in ((last.emitting, number - 1, before), (last.epsilons, number, states)):
        cost_of = search.tokens._rows[of].cost
        for src, dst, arc, cost in zip(links.src, links.dst, links.arc.tolist(), links.cost, strict=True):
            own = float(cost_of[src] + cost - last.cost[dst])
            frames[of].links[sources[src]][arc] = (number, states[dst], own)


def _prune_slowly(frames: list[_Frame], beam: float) -> None:
    """Prunes token after token, those that came last first, until none of a row changes by a tenth of the beam."""
    newest = frames[-1]
    if newest.counted < 0:
        newest.counted = len(newest.links)
    for number in reversed(range(len(frames) - 1)):
        frame = frames[number]
        if frame.links_wait:
            again, changed, removed = True, False, False
            while again:
                again = False
                for state in reversed(frame.links):
                    best, known = np.inf, frame.excess[state]
                    for arc, (row, dst, own) in list(frame.links[state].items()):
                        excess = frames[row].excess[dst] + own
                        if excess > beam:
                            del frame.links[state][arc]
                            removed = True
                        else:
                            best = min(best, max(excess, 0.0))
                    frame.excess[state] = best
                    again |= best != known and abs(best - known) > 0.1 * beam
                changed |= again
            if changed and number:
                frames[number - 1].links_wait = True
            frame.links_wait, frame.tokens_wait = False, frame.tokens_wait or removed
        above = frames[number + 1]
        if number + 1 < len(frames) - 1 and above.tokens_wait:
            above.counted, above.tokens_wait = len(above.links), False
            for state in [state for state, excess in above.excess.items() if excess == np.inf]:
                del above.links[state], above.excess[state]


@pytest.mark.parametrize("beam", [1.0, 3.0])
def test_tokens_are_pruned_and_counted_one_after_the_other(beam: float) -> None:
    """Where little changes, what was known stays, and counts have tokens that were removed when they were made."""
    for _ in range(4):
        graph = SearchGraph(random_graph(RANDOM, states=9))
        search = BeamSearch(graph, DecodingOptions(beam=8, lattice_beam=beam, prune_interval=1000))
        frames: list[_Frame] = []
        _take(frames, search)
        for _ in range(24):
            search.advance((2 * RANDOM.normal(size=(1, 4))).astype(np.float32))
            _take(frames, search)
            if RANDOM.random() < 0.4:
                search.prune()
                _prune_slowly(frames, beam)
                assert search.tokens.num_tokens(1).tolist() == [frame.counted for frame in frames[1:]]
        search.prune()
        _prune_slowly(frames, beam)
        for number, (row, frame) in enumerate(zip(search.tokens._rows, frames, strict=True)):
            assert row.state.tolist() == list(frame.links)
            assert row.excess.tolist() == pytest.approx(list(frame.excess.values()))
            into = {
                (row, dst, arc)
                for each in frames[: number + 1]
                for links in each.links.values()
                for arc, (row, dst, _) in links.items()
                if row == number
            }
            kept = [(links.arc.tolist(), row.state[links.dst].tolist()) for links in (row.emitting, row.epsilons)]
            assert {(number, dst, arc) for arcs, dsts in kept for arc, dst in zip(arcs, dsts, strict=True)} == into


def test_another_composition_changes_nothing() -> None:
    search = LookaheadSearch(lookahead_graph(), bigram(), np.arange(-1, LABELS))
    stays, moves = (BeamSearch(search.begin(), OPTIONS) for _ in range(2))
    for number in range(12):
        scores = random_scores(2)
        stays.advance(scores)
        moves.advance(scores)
        stays.prune()
        moves.prune()
        if number % 3 == 2:
            before = moves.newest(0)
            moves.forget(moves.num_rows - 1, search._new())
            _same(stays, moves)
            after = moves.newest(0)
            assert before is not None
            assert after is not None
            assert before[1].tolist() == after[1].tolist()  # tokens are the same ones, by which paths are compared
            assert moves.graph is not stays.graph
