"""Lattices of words: the same sequences of words as the search's lattice, each once, with its best path."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice_file import write_lattice
from nnet3.kaldi_io import Fst, Writer
from nnet3.options import DecodingOptions
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.raw_lattice import RawLattice
from nnet3.speech.lattices.word_lattice import PhoneLabels, finished, within_memory, word_lattice
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.search_graph import SearchGraph
from tests.asr.slow_search import best_of_words, paths_of, random_graph
from tests.asr.toy_lattices import strings_of
from tests.asr.toy_phones import chain_model
from tests.effort import third
from tests.lattices.words_of_one_phone import QUARTERS, WORDS_OF_ONE_PHONE
from tests.seeds import RANDOM


@pytest.mark.parametrize("beam", [1.0, 3.0, 100.0])
def test_each_sequence_of_words_once(beam: float) -> None:
    for _ in range(third(12)):
        fst = random_graph(RANDOM)
        scores = (2 * RANDOM.normal(size=(4, 4))).astype(np.float32)
        search = BeamSearch(SearchGraph(fst), DecodingOptions(beam=1000, lattice_beam=1000))
        search.advance(scores)
        raw = search.lattice()
        assert raw is not None
        found = paths_of(word_lattice(raw, beam).lattice)
        assert all(len(paths) == 1 for paths in found.values())
        expected = best_of_words(fst, scores)
        most = min(cost for cost, _ in expected.values()) + beam
        inside = {words for words, (cost, _) in expected.items() if cost <= most - 0.01}
        assert inside <= set(found)
        for words, [(cost, labels)] in found.items():
            assert cost >= expected[words][0] - 1e-3
            if words in inside:
                assert cost == pytest.approx(expected[words][0], abs=1e-3)
            assert len(labels) == len(scores)


def test_the_transition_ids_are_those_of_the_best_path() -> None:
    fst = random_graph(RANDOM, states=10)
    scores = (2 * RANDOM.normal(size=(12, 4))).astype(np.float32)
    search = BeamSearch(SearchGraph(fst), DecodingOptions(beam=1000, lattice_beam=3))
    search.advance(scores)
    raw, path = search.lattice(), search.best_path(use_final=True)
    assert raw is not None
    assert path is not None
    found = paths_of(word_lattice(raw, 3).lattice)
    [(cost, labels)] = found[tuple(path.words.tolist())]
    assert labels == tuple(path.transition_ids.tolist())
    assert cost == pytest.approx(path.cost, abs=1e-4)


def _raw(states: int, rows: int, beam: float) -> RawLattice:
    search = BeamSearch(SearchGraph(random_graph(RANDOM, states)), DecodingOptions(beam=1000, lattice_beam=beam))
    search.advance((0.3 * RANDOM.normal(size=(rows, 4))).astype(np.float32))
    raw = search.lattice()
    assert raw is not None
    return raw


def test_memory_that_ends_narrows_the_beam_and_leaves_the_best_path() -> None:
    """Of the narrower beam nothing is missing."""
    raw = _raw(states=12, rows=9, beam=6)
    whole = word_lattice(raw, 6)
    assert whole.beam == 6
    assert whole.notices(6) == []
    everything = {words: min(paths)[0] for words, paths in paths_of(whole.lattice).items()}
    best, beams = min(everything.values()), []
    for most in (10**9, 60_000, 30_000, 10_000, 1_000, 0):
        found = word_lattice(raw, 6, most)
        beams.append(found.beam)
        paths = {words: min(paths)[0] for words, paths in paths_of(found.lattice).items()}
        inside = {words for words, cost in everything.items() if cost <= best + found.beam - 1e-3}
        assert inside <= set(paths)
        assert all(cost == pytest.approx(everything[words], abs=1e-3) for words, cost in paths.items())
        assert min(paths.values()) == pytest.approx(best, abs=1e-4)
    assert beams == sorted(beams, reverse=True)
    assert beams[0] == 6
    assert beams[-1] == 0
    assert len(set(beams)) >= 4
    notice = "the lattice needs too much memory: its beam is 0 instead of 6 (max-mem)"
    assert word_lattice(raw, 6, 0).notices(6) == [notice]


def test_merged_states_change_no_path() -> None:
    smaller = 0
    for _ in range(8):
        raw = _raw(states=6, rows=6, beam=5)
        plain, merged = (word_lattice(raw, 5, minimize=minimize).lattice for minimize in (False, True))
        expected, found = paths_of(plain), paths_of(merged)
        assert set(found) == set(expected)
        for words, [(cost, labels)] in found.items():
            [(expected_cost, expected_labels)] = expected[words]
            assert labels == expected_labels
            assert cost == pytest.approx(expected_cost, abs=1e-4)
        assert merged.fst.num_states <= plain.fst.num_states
        smaller += merged.fst.num_states < plain.fst.num_states
    assert smaller


def test_the_best_path_alone() -> None:
    raw = _raw(states=5, rows=4, beam=2)
    alone = raw.labelled().best_path()
    [[(cost, labels)]] = paths_of(alone.lattice()).values()
    assert cost == pytest.approx(raw.best_cost, abs=1e-5)
    assert (cost, labels) in [
        (pytest.approx(other, abs=1e-5), ids) for paths in paths_of(raw).values() for other, ids in paths
    ]


def test_silence_alone() -> None:
    fst = Fst.from_arcs(0, [0.5], [0], [0], [1], [0.25], [0])
    search = BeamSearch(SearchGraph(fst), DecodingOptions())
    search.advance(np.zeros((3, 1), np.float32))
    raw = search.lattice()
    assert raw is not None
    lattice = word_lattice(raw, 10).lattice
    assert paths_of(lattice) == {(): [(pytest.approx(1.25), (1, 1, 1))]}


def test_by_phones_alone_as_kaldi_does_it() -> None:
    """First phones are not told apart, chains are joined, and nothing is minimized."""
    src, dst = np.array([[0, 0, 1, 1, 2, 3], [1, 1, 2, 2, 3, 4]])
    begins = strings_of([[2], [4], [6], [8], [4], [2]])  # phones 1, 2, 3, 4, 2, 1
    graph, final = np.array([1.0, 2.0, 0.5, 0.25, 3.0, 4.0]), np.array([np.inf] * 4 + [0.0])
    none = 0 * src
    whole = LabelLattice(np.arange(5), src, dst, none, graph, 0 * graph, begins, final, final, strings_of([[]] * 5))
    found, _ = within_memory(whole, 10.0, np.inf, PhoneLabels(chain_model()), phones_alone=True)
    made = finished(found, minimize=True, phones_alone=True)
    ids, cost = [made.transition_ids[np.array([a])].values.tolist() for a in range(made.fst.num_arcs)], made.fst.cost
    assert sorted(zip(ids, cost.tolist(), strict=True)) == [([2, 6], 1.5), ([2, 8], 1.25), ([4, 2], 7.0)]


KALDI = {  # arcs (word and weight) and ends
    "one word": "1 2.5,-7.25,|0,0,4_3_4_3_3_3",
    "two words": "1 2.125,-3.5,|2 2.5,-3,2_4_3_3_3_3|0.75,0,2_4_4_3_3_3|0.75,0,",
    "behind a word": "1 2.125,-3.5,|2 2.25,-3,2_1|0.75,0,2_1_4_3_4_3|1 2.25,-1,4_3_4_4|1,0.25,1_1_4_3|0.75,0,",
    "equal costs": (
        "1 1.375,-2.25,|1 2.375,0.75,|1 2.375,1,4_4_4_4_3_3|2 2.125,-2.25,|0.375,-0.25,4_4_3_4_3_3|0.75,0,|"
        "1.125,1,2_4_3_3_3_3|1.5,0.25,2_4_3_4_3_3"
    ),
}


@pytest.mark.parametrize("name", list(KALDI))
def test_costs_and_ids_lie_where_kaldi_has_them(name: str) -> None:
    """Lattices that latgen-faster-mapped has written of these scores.

    Costs of ends are on the arc of the ids before them; a word at the start has its arc in common with the same word
    behind a silence, though nothing is left of the latter.
    """
    quarters, beam = QUARTERS[name]
    assert _told(WORDS_OF_ONE_PHONE, [*[np.inf] * 5, 0.75, np.inf], quarters, beam) == sorted(KALDI[name].split("|"))


@pytest.mark.parametrize("interval", [25, 2])
def test_a_lattice_of_a_search_that_has_not_been_pruned_at_its_end(interval: int) -> None:
    """Lattices that nnet3-latgen-faster-batch has written: words that go on differently in a lattice not pruned have
    ends of their own."""
    found = _told(WORDS_OF_ONE_PHONE, [*[np.inf] * 5, 0.75, np.inf], QUARTERS["two words"][0], 1, interval, prune=False)
    ends = [""] if interval == 2 else ["", ""]
    assert found == [*ends, "1 2.875,-3.5,2_4_4_3_3_3", "2 3.25,-3,2_4_3_3_3_3"]


def test_sets_whose_costs_are_close_are_one() -> None:
    """The lattice that latgen-faster-mapped has written: 0.0004 and 0.0006 are closer than 1 / 1024."""
    arcs = [(0, 1, 2, 1, 1.0), (0, 2, 2, 1, 1.0004), (0, 1, 2, 2, 2.0), (0, 2, 2, 2, 2.0006)]
    words = [(1, 3, 4, 3, 0.5), (2, 3, 4, 4, 0.5)]
    found = _told([*arcs, *words], [np.inf, np.inf, np.inf, 0.25], [[4, 8, 0, 4], [2, -4, 8, 1]], 8)
    assert found == ["0.25,0,", "1 1,-1,2", "2 2,-1,2", "3 0.5,-2,4", "4 0.5004,-2,4"]


def _told(
    arcs: list[tuple[int, int, int, int, float]],
    final: list[float],
    quarters: list[list[int]],
    beam: float,
    interval: int = 25,
    prune: bool = True,
) -> list[str]:
    """Returns the words and weights of the arcs of a graph's lattice, and the weights of its ends."""
    src, dst, ilabel, olabel, cost = zip(*arcs, strict=True)
    model, options = chain_model(), DecodingOptions(beam=20, lattice_beam=beam, prune_interval=interval)
    fst = Fst.from_arcs(0, final, src, dst, ilabel, cost, olabel)
    search = BeamSearch(SearchGraph(fst, model.pdf_of_label), options)
    search.advance(np.array(quarters, np.float32) / np.float32(4))
    raw = search.lattice(prune=prune)
    assert raw is not None
    writer = Writer(binary=False)
    write_lattice(writer, word_lattice(raw, beam, phones=PhoneLabels(model)).lattice)
    lines = [line.split() for line in writer.getvalue().decode().split("\n") if line.strip()]
    return sorted(" ".join(line[2:] if len(line) == 4 else line[1:]) for line in lines)
