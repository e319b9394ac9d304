"""Lattices composed with models: all paths by the obvious way, cheapest ways, bad input."""

from __future__ import annotations

from collections import defaultdict
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.lattice import Lattice, no_strings
from nnet3.base.kaldi_io.lattice_states import with_states
from nnet3.errors import ModelFormatError
from nnet3.speech.language_models.word_acceptor import NO_ARC
from nnet3.speech.lattices import lattice_composition
from nnet3.speech.lattices.cheapest_acceptor import CheapestAcceptor
from nnet3.speech.lattices.lattice_composition import WordFst, composed, composed_with_fst
from nnet3.speech.lattices.rescoring import best_of_words, rescored, rescored_by_fst
from tests.asr.golden_rescoring import Words, paths
from tests.asr.random_lattices import Sums, random_grammar, random_lattice


def _with_costs(lattice: Lattice, costs: dict[Words, float]) -> dict[Words, list[tuple[tuple[int, ...], float, float]]]:
    found = {
        words: [(ids, graph + costs[words], acoustic) for ids, graph, acoustic in each]
        for words, each in paths(lattice).items()
        if costs[words] < np.inf
    }
    return {words: sorted(each, key=lambda path: (path[0], path[1] + path[2])) for words, each in found.items()}


def _assert_equal(made: Lattice, wanted: dict[Words, list[tuple[tuple[int, ...], float, float]]]) -> None:
    found = {words: sorted(each, key=lambda path: (path[0], path[1] + path[2])) for words, each in paths(made).items()}
    assert set(found) == set(wanted)
    for words, each in wanted.items():
        assert [ids for ids, *_ in found[words]] == [ids for ids, *_ in each]
        np.testing.assert_allclose([one[1:] for one in found[words]], [one[1:] for one in each], atol=1e-5)


@given(st.integers(0, 2**32))
def test_all_paths_get_the_costs_of_a_model(seed: int) -> None:
    lattice = random_lattice(np.random.default_rng(seed))
    costs = {words: Sums().cost(words) for words in paths(lattice)}
    for few in (1, 100):  # by arrays of pairs, or pair by pair
        with patch.object(lattice_composition, "_FEW", few):
            _assert_equal(composed(lattice, Sums()), _with_costs(lattice, costs))
    scaled = rescored(lattice, Sums(), -0.5)
    best = paths(lattice.with_costs(graph=(-2.0, 0.0)))
    assert set(paths(scaled)) == {words for words in costs if costs[words] < np.inf}
    for words, ((ids, graph, acoustic),) in paths(scaled).items():
        wanted = min(best[words], key=lambda path: path[1] + path[2])
        assert graph == pytest.approx(-0.5 * (wanted[1] + costs[words]), abs=1e-4)
        assert acoustic == pytest.approx(wanted[2], abs=1e-4)
        assert ids in [path[0] for path in best[words]]


def _unaligned(fst: Fst) -> Fst:
    """Returns the FST with arrays that begin at odd addresses, as arrays of a file may."""

    def moved(array: np.ndarray) -> np.ndarray:
        return np.frombuffer(b"\0" + array.tobytes(), array.dtype, offset=1)

    columns = (fst.offsets, fst.ilabel, fst.olabel, fst.cost, fst.dst)
    return Fst(fst.start, fst.final, *map(moved, columns))


def _cheapest(fst: Fst, words: Words) -> float:
    """The cost of the cheapest way of an FST to read words, by states and the number of words read."""
    best = defaultdict[tuple[int, int], float](lambda: np.inf, {(fst.start, 0): 0.0})
    for place in range(len(words) + 1):
        for state in range(fst.num_states):  # arcs without words lead upwards
            for arc in range(fst.offsets[state], fst.offsets[state + 1]):
                label, cost = int(fst.ilabel[arc]), best[state, place] + float(fst.cost[arc])
                if label == 0 or words[place : place + 1] == (label,):
                    to = int(fst.dst[arc]), place + (label > 0)
                    best[to] = min(best[to], cost)
    return min(best[state, len(words)] + float(fst.final[state]) for state in range(fst.num_states))


@given(st.integers(0, 2**32))
def test_words_take_the_cheapest_way_through_an_fst(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lattice, fst = random_lattice(rng), random_grammar(rng)
    own = paths(lattice)
    costs = {words: _cheapest(fst, words) for words in own}
    made = paths(rescored_by_fst(lattice, WordFst(fst), 1.0))
    assert set(made) == {words for words in own if costs[words] < np.inf}
    for words, ((ids, graph, acoustic),) in made.items():
        total = min(path[1] + path[2] for path in own[words])
        assert graph + acoustic == pytest.approx(total + costs[words], abs=1e-4)
        assert ids in [path[0] for path in own[words]]


@given(st.integers(0, 2**32))
def test_the_cheapest_way_of_an_acceptor(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fst = random_grammar(rng)
    acceptor = CheapestAcceptor(WordFst(fst))
    for words in rng.integers(1, 5, (8, 4)).tolist():
        state, total = 0, 0.0
        for place, word in enumerate(words):
            np.testing.assert_allclose(
                total + acceptor.final_cost(state), _cheapest(fst, tuple(words[:place])), atol=1e-2
            )
            found, (dst, cost) = acceptor.arc(state, word), acceptor.arcs(np.array([state]), np.array([word]))
            assert (dst.tolist(), cost.tolist()) == (([found[0]], [found[1]]) if found else ([NO_ARC], [np.inf]))
            if found is None:
                assert _cheapest(fst, tuple(words[: place + 1])) == np.inf
                break
            state, total = found[0], total + found[1]
    assert len(acceptor) > 0
    assert CheapestAcceptor(WordFst(_unaligned(fst))).arc(0, 3) == CheapestAcceptor(WordFst(fst)).arc(0, 3)
    assert acceptor.arcs(np.zeros(0, np.int64), np.zeros(0, np.int64)).dst.tolist() == []


def test_output_labels_of_an_fst_are_the_words() -> None:
    fst = Fst.from_arcs(0, [np.inf, 0], [0, 0], [1, 0], [1, 2], [0.5, 1], [7, 0])
    lattice = random_lattice(np.random.default_rng(3))
    line = with_states(lattice, np.zeros(0, np.int64))
    assert paths(composed_with_fst(line, WordFst(fst))) == {}
    one = Lattice(
        Fst.from_arcs(0, [np.inf, np.inf, 0], [0, 1], [1, 2], [2, 1]),
        *(np.zeros(2, np.float32), np.array([np.inf, np.inf, 0], np.float32)),
        *(no_strings(2), no_strings(3)),
    )
    assert list(paths(composed_with_fst(one, WordFst(fst)))) == [(7,)]


def test_empty_lattices_stay_empty() -> None:
    empty = with_states(random_lattice(np.random.default_rng(0)), np.zeros(0, np.int64))
    assert paths(rescored(empty, Sums(), 1.0)) == {}
    assert paths(rescored_by_fst(empty, WordFst(random_grammar(np.random.default_rng(0))), 1.0)) == {}
    assert best_of_words(empty) is empty
    assert paths(composed_with_fst(random_lattice(np.random.default_rng(0)), WordFst(Fst.empty()))) == {}


def test_arcs_without_words_in_a_circle() -> None:
    fst = Fst.from_arcs(0, [np.inf, 0], [0, 1], [1, 0], [0, 0])
    with pytest.raises(ModelFormatError, match="arcs without words of a grammar have a cycle"):
        WordFst(fst)
