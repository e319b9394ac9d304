"""Best paths of lattices: against all paths of a small one; what they consist of; as lattices of their own."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import Lattice, Strings
from nnet3.kaldi_io import Fst
from nnet3.speech.lattices.lattice_path import best_paths, random_paths
from tests.asr.slow_search import paths_of
from tests.asr.toy_lattices import random_word_lattice
from tests.seeds import RANDOM


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_the_best_of_all_paths_come_in_order(scale: float) -> None:
    lattice = random_word_lattice()
    of_words = paths_of(lattice, scale)
    every = sorted((cost, words, ids) for words, paths in of_words.items() for cost, ids in paths)
    for number in (1, 3, len(every) + 5):
        found = best_paths(lattice, number, acoustic_scale=scale)
        assert len(found) == min(number, len(every))
        for path, (cost, _, _) in zip(found, every, strict=False):
            assert path.cost == pytest.approx(cost, abs=1e-4)
            assert path.graph_cost + scale * path.acoustic_cost == pytest.approx(path.cost, abs=1e-4)
            alone = of_words[tuple(path.words.tolist())]
            assert (pytest.approx(cost, abs=1e-4), tuple(path.transition_ids.tolist())) in alone


def test_a_path_as_a_lattice_is_that_path() -> None:
    for path in best_paths(random_word_lattice(), 4):
        [[(cost, ids)]] = paths_of(path.as_lattice()).values()
        assert cost == pytest.approx(path.cost, abs=1e-4)
        assert ids == tuple(path.transition_ids.tolist())
        [again] = best_paths(path.as_lattice(), 2)
        assert (again.graph_cost, again.acoustic_cost) == pytest.approx((path.graph_cost, path.acoustic_cost), abs=1e-4)


def test_one_of_several_paths_lies_between_arcs_of_nothing() -> None:
    """The last one has the costs of the end."""
    for path in best_paths(random_word_lattice().plain(), 4):
        several = path.as_one_of_several()
        assert several.is_plain
        [[(cost, ids)]] = paths_of(several).values()
        assert cost == pytest.approx(path.cost, abs=1e-4)
        assert ids == tuple(path.transition_ids.tolist())
        graph, acoustic = several.fst.cost, several.acoustic_cost
        assert several.fst.ilabel[[0, -1]].tolist() == several.transition_ids.lengths[[0, -1]].tolist() == [0, 0]
        assert graph[0] == acoustic[0] == several.fst.final[-1] == several.final_acoustic_cost[-1] == 0
        ends = path.lattice.fst.final[path.end], path.lattice.final_acoustic_cost[path.end]
        assert (graph[-1], acoustic[-1]) == ends


def test_a_penalty_of_words_chooses_fewer_of_them() -> None:
    strings = Strings(np.arange(4), np.array([5, 6, 7], np.int32))
    none = Strings(np.zeros(4, np.int64), strings.values[:0])
    fst = Fst.from_arcs(0, [np.inf, np.inf, 0], [0, 0, 1], [2, 1, 2], [1, 2, 3], [1.0, 0.2, 0.2])
    lattice = Lattice(fst, np.zeros(3, np.float32), np.zeros(3, np.float32), strings, none)
    assert best_paths(lattice, 1)[0].words.tolist() == [2, 3]
    [path] = best_paths(lattice, 1, word_penalty=2.0)
    assert path.words.tolist() == [1]
    assert path.cost == 3.0
    assert path.graph_cost == 1.0


def test_no_path() -> None:
    fst = Fst.from_arcs(0, [np.inf], [], [], [])
    none = Strings(np.zeros(2, np.int64), np.empty(0, np.int32))
    empty = Lattice(
        fst, np.empty(0, np.float32), np.full(1, np.inf, np.float32), Strings(np.zeros(1, np.int64), none.values), none
    )
    assert best_paths(empty, 1) == random_paths(empty, 1, np.random.default_rng(0)) == []


def test_random_paths_take_every_way_on_as_often() -> None:
    """Of 0 two ways lead on, of 1 one and the end; arc 3 leads over state 3 to 4, which is no end."""
    ends = [np.inf, 0, 0, np.inf, np.inf]
    fst = Fst.from_arcs(0, ends, [0, 0, 0, 1, 3], [1, 2, 3, 2, 4], [1, 2, 3, 4, 5], [9.0, 0, 0, 0, 0])
    strings = Strings(np.arange(6), np.array([5, 6, 7, 8, 9], np.int32))
    none = Strings(np.zeros(6, np.int64), strings.values[:0])
    lattice = Lattice(fst, np.zeros(5, np.float32), np.zeros(5, np.float32), strings, none)
    drawn = [tuple(path.words.tolist()) for path in random_paths(lattice, 4000, RANDOM)]
    shares = {words: drawn.count(words) / len(drawn) for words in set(drawn)}
    assert shares == pytest.approx({(1,): 0.25, (1, 4): 0.25, (2,): 0.5}, abs=0.05)
