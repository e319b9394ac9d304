"""The search against all paths of small graphs, against kaldi-decoder, and in pieces against all at once."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.fst_file import save_fst
from nnet3.errors import ExecutionError, ModelFormatError
from nnet3.kaldi_io import Fst
from nnet3.options import DecodingOptions
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.search_graph import SearchGraph
from tests.asr.slow_search import best_of_words, paths_of, random_graph
from tests.effort import EFFORT
from tests.seeds import RANDOM

WIDE = DecodingOptions(beam=1000, lattice_beam=1000, prune_interval=3)


def _scores(rows: int, columns: int = 4) -> np.ndarray:
    return (2 * RANDOM.normal(size=(rows, columns))).astype(np.float32)


def _search(fst: Fst, scores: np.ndarray, options: DecodingOptions = WIDE) -> BeamSearch:
    search = BeamSearch(SearchGraph(fst), options)
    search.advance(scores)
    return search


def test_a_wide_search_finds_the_best_path_of_all_words() -> None:
    for _ in range(25):
        fst, scores = random_graph(RANDOM), _scores(int(RANDOM.integers(1, 5)))
        lattice = _search(fst, scores).lattice()
        assert lattice is not None
        expected = best_of_words(fst, scores)
        found = {words: min(paths) for words, paths in paths_of(lattice).items()}
        assert set(found) == set(expected)
        for words, (cost, _) in expected.items():
            assert found[words][0] == pytest.approx(cost, abs=1e-5)


_MOST_ROWS = 5 if EFFORT > 1 else 4  # there are several times as many paths with each row


def test_the_best_path_at_every_row() -> None:
    """With and without final costs: words, labels of rows, states that they leave."""
    for _ in range(3):
        fst, scores = random_graph(RANDOM), _scores(_MOST_ROWS)
        search = BeamSearch(SearchGraph(fst), WIDE)
        for row in range(_MOST_ROWS):
            search.advance(scores[row : row + 1])
            for use_final in (False, True):
                expected = best_of_words(fst, scores[: row + 1], use_final)
                words, (cost, labels) = min(expected.items(), key=lambda item: item[1][0])
                path = search.best_path(use_final)
                assert path is not None
                assert path.cost == pytest.approx(cost, abs=1e-5)
                assert (tuple(path.words), tuple(path.transition_ids)) == (words, labels)
                assert len(path.states) == row + 1
                assert path.states[0] in range(fst.num_states)
                assert (np.diff(path.word_rows) >= 0).all()
            without, with_end = (min(best_of_words(fst, scores[: row + 1], f).values())[0] for f in (False, True))
            expected_cost = with_end - without if search.can_end else np.inf
            assert search.relative_cost == pytest.approx(expected_cost, abs=1e-4)


NARROW = DecodingOptions(beam=4, lattice_beam=3, min_active=0)
FEW = DecodingOptions(beam=6, max_active=4, min_active=2, lattice_beam=4)


@pytest.mark.parametrize("options", [NARROW, FEW])
def test_rows_in_pieces_are_rows_at_once(options: DecodingOptions) -> None:
    fst, scores = random_graph(RANDOM, states=30), _scores(60)
    whole, pieces = _search(fst, scores, options), BeamSearch(SearchGraph(fst), options)
    for start in range(0, 60, 7):
        pieces.advance(scores[start : start + 7])
        pieces.best_path()
    first, second = whole.lattice(), pieces.lattice()
    assert first is not None
    assert second is not None
    assert np.array_equal(first.src, second.src)
    assert np.array_equal(first.cost, second.cost)


def test_searches_of_one_graph_side_by_side() -> None:
    graph = SearchGraph(random_graph(RANDOM, states=20))
    scores = [_scores(20) for _ in range(3)]
    alone = []
    for each in scores:
        search = BeamSearch(graph, WIDE)
        search.advance(each)
        alone.append(search.best_path())
    together = [BeamSearch(graph, WIDE) for _ in scores]
    for row in range(20):
        for search, each in zip(together, scores, strict=True):
            search.advance(each[row : row + 1])
    for search, path in zip(together, alone, strict=True):
        again = search.best_path()
        assert again is not None
        assert path is not None
        assert np.array_equal(again.transition_ids, path.transition_ids)


def test_kaldi_decoder_finds_the_same(tmp_path) -> None:  # type: ignore[no-untyped-def]
    kaldi_decoder, kaldifst = pytest.importorskip("kaldi_decoder"), pytest.importorskip("kaldifst")
    for _ in range(5):
        fst, scores = random_graph(RANDOM, states=40, labels=10), _scores(40, 10)
        save_fst(fst, str(tmp_path / "graph.fst"))
        graph = kaldifst.StdFst.read(str(tmp_path / "graph.fst"))
        config = kaldi_decoder.LatticeSimpleDecoderConfig(beam=8, lattice_beam=4)
        decoder = kaldi_decoder.LatticeSimpleDecoder(graph, config)
        decoder.decode(kaldi_decoder.DecodableCtc(scores))
        _, best = decoder.get_best_path()
        _, labels, words, _ = kaldifst.get_linear_symbol_sequence(best)
        search = _search(fst, scores, DecodingOptions(beam=8, lattice_beam=4, min_active=0))
        path, lattice = search.best_path(use_final=True), search.lattice()
        assert path is not None
        assert lattice is not None
        assert (path.transition_ids.tolist(), path.words.tolist()) == (list(labels), list(words))
        assert lattice.best_cost == pytest.approx(path.cost, abs=1e-6)
        assert (lattice.forward + lattice.backward).max() <= path.cost + 4 + 1e-4


def test_max_active_narrows_and_min_active_widens() -> None:
    fst, scores = random_graph(RANDOM, states=200), _scores(20)
    tokens = {}
    for name, options in {
        "all": DecodingOptions(beam=100, min_active=0),
        "few": DecodingOptions(beam=100, max_active=10, min_active=5),
        "narrow": DecodingOptions(beam=0.1, min_active=0),
        "widened": DecodingOptions(beam=0.1, min_active=50),
    }.items():
        search = _search(fst, scores, options)
        cost = search.tokens.last.cost
        tokens[name] = len(cost)
    assert tokens["few"] < tokens["all"]
    assert tokens["narrow"] < tokens["widened"] <= tokens["all"]


def test_the_first_beam_is_that_of_what_is_reached_without_a_row() -> None:
    fst = Fst.from_arcs(0, [0, np.inf, np.inf], [0, 0, 1], [1, 2, 2], [0, 0, 1], [1.0, 9.0, 0.0], [0, 0, 0])
    graph = SearchGraph(fst)
    for first_beam, reached in ((None, 2), (0.5, 1), (10.0, 3), (np.inf, 3)):
        search = BeamSearch(graph, DecodingOptions(beam=2.0), first_beam)
        assert len(search.tokens.last.cost) == reached
        assert search.options.beam == 2.0


def test_no_path_is_no_lattice() -> None:
    fst = Fst.from_arcs(0, [np.inf, 0], [0], [1], [1], [0.0], [1])
    search = _search(fst, _scores(1))
    assert search.can_end
    search.advance(_scores(2))
    assert search.lattice() is None
    assert search.best_path() is None
    assert search.relative_cost == np.inf


def test_a_path_that_cannot_end_yet_is_a_lattice_of_what_is_there() -> None:
    fst = Fst.from_arcs(0, [np.inf, np.inf, 1.0], [0, 1], [1, 2], [1, 2], [0.0, 0.0], [7, 8])
    lattice = _search(fst, np.ones((1, 2), np.float32)).lattice()
    assert lattice is not None
    assert not lattice.has_ended
    assert list(paths_of(lattice)) == [(7,)]


def test_memory_that_ends_narrows_the_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    search = BeamSearch(SearchGraph(random_graph(RANDOM, states=30)), DecodingOptions(beam=10, lattice_beam=10))
    whole, failures = search._next, iter([MemoryError(), None, MemoryError()])

    def failing(scores: np.ndarray):  # type: ignore[no-untyped-def]
        error = next(failures, None)
        if error is not None:
            raise error
        return whole(scores)

    monkeypatch.setattr(search, "_next", failing)
    search.advance(_scores(4))
    assert search.num_rows == 4
    assert search.options.beam == pytest.approx(10 * 0.75**2)
    assert search.notices == [
        "the search needs too much memory: from row 0 on the beam is 7.5",
        "the search needs too much memory: from row 1 on the beam is 5.62",
    ]


def test_too_many_links_narrow_the_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3.speech.search.beam_search._MOST_LINKS", 300)
    search = _search(random_graph(RANDOM, states=100), _scores(30), DecodingOptions(beam=20, lattice_beam=20))
    assert search.notices
    assert search.best_path() is not None
    assert search.tokens.num_links == sum(len(row.emitting.arc) + len(row.epsilons.arc) for row in search.tokens._rows)


def test_graphs_that_cannot_be_searched() -> None:
    with pytest.raises(ModelFormatError, match="the decoding graph is empty"):
        SearchGraph(Fst.empty())
    fst = Fst.from_arcs(0, [0.0], [0], [0], [5], [0.0], [1])
    with pytest.raises(ModelFormatError, match="has input label 5, but the model has 3 transition-ids: does the graph"):
        SearchGraph(fst, [-1, 0, 0, 1])
    with pytest.raises(ExecutionError, match=r"expected scores of at least 5 columns, got an array of shape \(2, 4\)"):
        _search(fst, _scores(2))
    loop = Fst.from_arcs(0, [0.0, 0.0], [0, 1], [1, 0], [0, 0], [-1.0, 0.5], [0, 0])
    with pytest.raises(ExecutionError, match="a cycle of epsilons with a negative cost"):
        BeamSearch(SearchGraph(loop), WIDE)
