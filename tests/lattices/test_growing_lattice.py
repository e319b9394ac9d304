"""Lattices made in pieces: the same as in one."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.kaldi_io import Fst
from nnet3.options import DecodingOptions
from nnet3.speech.lattices.growing_lattice import GrowingLattice, _reached
from nnet3.speech.lattices.label_lattice import NO_ARCS, LabelLattice
from nnet3.speech.lattices.word_lattice import PhoneLabels, word_lattice
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.search_graph import SearchGraph
from tests.asr.slow_search import Words, paths_of, random_graph
from tests.asr.toy_phones import chain_model
from tests.effort import at_night
from tests.seeds import RANDOM

WIDE = 1000.0
COLUMNS = chain_model().pdf_of_label
PHONES = PhoneLabels(chain_model())
Paths = dict[Words, tuple[float, tuple[int, ...]]]


def _search(beam: float = WIDE, states: int = 6) -> BeamSearch:
    graph = SearchGraph(random_graph(RANDOM, states=states))
    return BeamSearch(graph, DecodingOptions(beam=1000, lattice_beam=beam, prune_interval=2))


def _advance(search: BeamSearch, rows: int) -> None:
    search.advance((2 * RANDOM.normal(size=(rows, 4))).astype(np.float32))


def _whole(search: BeamSearch, use_final: bool = True) -> Paths:
    raw = search.lattice(use_final)
    assert raw is not None
    paths = paths_of(word_lattice(raw, search.options.lattice_beam, phones=PHONES).lattice)
    return {words: only for words, [only] in paths.items()}


def _grown(lattice: GrowingLattice, search: BeamSearch, use_final: bool = True) -> Paths:
    raw = search.lattice(use_final, lattice.first_row)
    assert raw is not None
    found = lattice.with_piece(raw).lattice(search.graph.final if use_final and search.can_end else None)
    assert found is not None
    assert (found.level[found.src] < found.level[found.dst]).all()
    return {words: only for words, [only] in paths_of(found.lattice()).items()}


def _compare(found: Paths, expected: Paths) -> None:
    assert set(found) == set(expected)
    for words, (cost, ids) in found.items():
        assert cost == pytest.approx(expected[words][0], abs=1e-3)
        assert ids == expected[words][1]


@pytest.mark.parametrize("ends", [(3,), (1, 2, 4), *at_night((1, 2, 3), (2, 4, 5))])
def test_pieces_make_the_whole(ends: tuple[int, ...]) -> None:
    """Whether the start is open or not, rows forgotten or not, with the costs of ends or without."""
    search, lattice = _search(states=4), GrowingLattice(WIDE, PHONES)
    other, expected = GrowingLattice(WIDE, PHONES), BeamSearch(search.graph, search.options)
    for rows in ends:
        scores = (2 * RANDOM.normal(size=(rows + 1 - search.num_rows, 4))).astype(np.float32)
        for each in (search, expected):
            each.advance(scores)
            each.prune()
        for grown, closes in ((lattice, False), (other, True)):
            if closes or grown.first_row or not lattice.first_row:
                grown.add((search if not closes else expected).tokens.piece(grown.first_row, rows))
        other.close_start()
        if lattice.first_row:
            search.forget(rows, search.graph)
        for use_final in (False, True):
            _compare(_grown(lattice, search, use_final), _whole(expected, use_final))
            _compare(_grown(other, expected, use_final), _whole(expected, use_final))


def test_a_narrow_beam_leaves_the_best_path_and_what_is_near_it() -> None:
    for _ in range(2):
        search, lattice = _search(beam=3.0, states=9), GrowingLattice(3.0, PHONES)
        for _ in range(4):
            _advance(search, 3)
            search.prune()
            lattice.add(search.tokens.piece(lattice.first_row, search.num_rows - 1))
            assert np.isfinite(lattice._forward[lattice._open]).all()  # each open state is reached
        whole, found = _whole(search), _grown(lattice, search)
        best = min(cost for cost, _ in whole.values())
        inside = {words for words, (cost, _) in whole.items() if cost < best + 2.99}
        assert inside <= set(found)
        for words in inside:
            assert found[words][0] == pytest.approx(whole[words][0], abs=1e-3)


def test_memory_that_ends_narrows_the_beam_and_leaves_the_best_path() -> None:
    search, lattice = _search(beam=50.0), GrowingLattice(50.0, PHONES, most_bytes=3000)
    _advance(search, 6)
    search.prune()
    lattice.add(search.tokens.piece(0, 4))
    path = search.best_path(use_final=True)
    assert path is not None
    assert lattice.narrowest < 50
    assert min(cost for cost, _ in _grown(lattice, search).values()) >= path.cost - 1e-3


def test_what_is_reached_is_open_where_several_words_end() -> None:
    """A state from which words go on to two tokens is named twice."""
    arcs = NO_ARCS._replace(src=np.array([1, 2, 5]), dst=np.array([2, 3, 6]))
    assert _reached(np.array([1, 1, 12]), arcs).tolist() == [1, 2, 3, 12]


def _kaldis_chunks(
    arcs: list[tuple[int, int, int, int, float]], final: list[float], rows: list[list[int]]
) -> LabelLattice:
    """The lattice of latgen-incremental-mapped --lattice-beam=1 --determinize-max-delay=4, chunks of two rows or more.

    arcs: source, next state, labels, cost; rows: scores, in sixteenths.
    """
    src, dst, ilabel, olabel, cost = zip(*arcs, strict=True)
    graph = SearchGraph(Fst.from_arcs(0, final, src, dst, ilabel, cost, olabel), COLUMNS)
    search, lattice = BeamSearch(graph, DecodingOptions(beam=20, lattice_beam=1)), GrowingLattice(1.0, PHONES)
    for row in rows:
        if search.num_rows - lattice.num_rows >= 4:
            search.prune()
            tokens = search.tokens.num_tokens(lattice.num_rows + 2)
            lattice.add(search.tokens.piece(lattice.first_row, search.num_rows - int(np.argmin(tokens[::-1]))))
        search.advance(np.array([row], np.float32) / np.float32(16))
    raw = search.lattice(first=lattice.first_row)
    assert raw is not None
    found = lattice.with_piece(raw).lattice(graph.final)
    assert found is not None
    return found


def test_states_that_no_path_reaches_any_more_are_not_open() -> None:
    """The lattice that Kaldi has written.

    An open state may be reached by a word of another open state alone. Where that word later leads to a larger set, the
    state is out of reach, and nothing behind it counts.
    """
    arcs = [
        *((0, 1, 3, 1, 1.434), (0, 0, 1, 2, 1.53), (0, 0, 3, 0, 0.054), (0, 1, 3, 1, 0.198), (0, 2, 3, 0, 1.467)),
        *((0, 0, 1, 2, 2.712), (0, 2, 0, 0, 0.201), (0, 2, 0, 0, 1.17), (1, 0, 2, 0, 1.125), (1, 1, 1, 1, 1.944)),
        *((1, 0, 3, 0, 1.5), (1, 2, 0, 0, 1.227), (2, 2, 4, 0, 2.358), (2, 1, 2, 2, 2.289), (2, 0, 1, 2, 1.179)),
    ]
    sixteenths = [
        *([23, -75, 20, -32], [-26, -7, -61, -18], [32, -47, 40, -66], [-5, -35, 20, -8], [2, -46, 8, -27]),
        *([29, -8, 27, -19], [47, 30, -40, 9], [-1, -19, -14, 22], [25, 17, 12, 2], [26, 1, 27, -23], [2, -57, -4, -6]),
    ]
    found = _kaldis_chunks(arcs, [np.inf, np.inf, 0.25], sixteenths)
    ways = [f"{label} {graph:.3f}" for label, graph in zip(found.label, found.graph_cost, strict=True)]
    kaldis = "1 0.144,1 1.215,1 1.377,1 1.485,1 1.578,1 1.578,1 3.069,1 3.324,2 2.490,2 3.507,2 3.777,2 3.870"
    assert sorted(ways) == kaldis.split(",")
    ends = found.final_graph < np.inf
    assert sorted(found.final_graph[ends].tolist()) == pytest.approx([0.25, 0.613, 1.684], abs=1e-5)
    assert sorted(found.final_ids[np.flatnonzero(ends)].lengths.tolist()) == [0, 3, 7]


def test_ids_stay_behind_a_state_from_where_a_token_was_lost() -> None:
    """The lattice that Kaldi has written: the ids of the end are common to all paths left."""
    arcs = [
        *((0, 2, 1, 0, 2.907), (0, 0, 4, 0, 0.105), (0, 1, 2, 0, 1.83), (0, 1, 1, 0, 1.245), (0, 2, 0, 1, 0.492)),
        *((0, 1, 0, 0, 2.457), (1, 0, 2, 0, 1.392), (1, 2, 1, 0, 1.836), (1, 0, 2, 0, 0.495), (2, 2, 4, 0, 2.169)),
        *((2, 2, 3, 1, 2.262), (2, 2, 2, 0, 0.3), (2, 1, 3, 0, 0.873), (2, 0, 4, 0, 2.616)),
    ]
    sixteenths = [
        *([42, 0, -34, -41], [20, 35, -9, -3], [-6, 23, 28, 40], [21, 9, -44, 52], [-24, 29, -50, -8]),
        *([-7, 4, -2, -29], [-7, 54, -20, -8], [-14, 34, 16, -25], [13, 31, 3, 58], [3, 42, 1, 32]),
    ]
    found = _kaldis_chunks(arcs, [0.9337460398674011, np.inf, 0.25], sixteenths)
    assert found.graph_cost == pytest.approx([9.99])
    assert found.acoustic_cost == pytest.approx([-20.8125])
    assert found.ids.values.tolist() == [2, 2, 3, 2, 1, 2]
    assert found.final_graph == pytest.approx([np.inf, 0.25])
    assert found.final_ids.values.tolist() == [1, 1, 3, 1]
