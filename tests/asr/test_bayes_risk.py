"""Words with the least risk, against the recursion written out."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.asr.bayes_risk import HeardWord, _without_overlaps, least_risk_words
from nnet3.asr.n_best import n_best
from nnet3.asr.word_times import WordTimes, rows_of_states
from nnet3.kaldi_io import Fst
from nnet3.kaldi_io.lattice import Lattice, Strings
from tests.asr.slow_bayes_risk import Arc, least_risk
from tests.asr.slow_search import paths_of
from tests.seeds import RANDOM


def random_lattice(states: int, words: int = 3) -> Lattice:
    """A lattice in which state s is row s, with arcs that skip states."""
    src = np.concatenate([np.arange(states - 1), RANDOM.integers(0, states - 1, 2 * states)])
    dst = np.append(np.arange(1, states), src[states - 1 :] + RANDOM.integers(1, 3, 2 * states)).clip(max=states - 1)
    order = np.argsort(src, kind="stable")
    src, dst = src[order], dst[order]
    word = RANDOM.integers(0, words + 1, len(src))
    final = np.where(RANDOM.random(states) < 0.2, RANDOM.random(states), np.inf)
    final[-1] = 0.5
    fst = Fst.from_arcs(0, final, src, dst, word, RANDOM.random(len(src)))
    acoustic = RANDOM.normal(size=len(src)).astype(np.float32)
    lengths = dst - src
    ids = Strings(np.append(0, np.cumsum(lengths)), np.ones(lengths.sum(), np.int32))
    final_lengths = np.where(final < np.inf, states - 1 - np.arange(states), 0)
    final_ids = Strings(np.append(0, np.cumsum(final_lengths)), np.ones(final_lengths.sum(), np.int32))
    return Lattice(fst, acoustic, np.full(states, 0.25, np.float32), ids, final_ids)


@pytest.mark.parametrize("graph_scale", [1.0, 0.9])
def test_the_recursion(graph_scale: float) -> None:
    for _ in range(15):
        lattice = random_lattice(int(RANDOM.integers(2, 9)))
        fst, rows = lattice.fst, rows_of_states(lattice)
        times = WordTimes(rows[fst.src], rows[fst.dst])
        cost = graph_scale * fst.cost.astype(np.float64) + lattice.acoustic_cost
        columns = (column.tolist() for column in (fst.src, fst.dst, fst.ilabel, cost, *times))
        arcs = [Arc(*row) for row in zip(*columns, strict=True)]
        ending = np.flatnonzero(fst.final < np.inf).tolist()
        end = fst.num_states
        arcs += [Arc(s, end, 0, graph_scale * float(fst.final[s]) + 0.25, end - 1, end - 1) for s in ending]
        best = [word for word, _, _ in n_best(lattice, 1, graph_scale)[0].words]
        expected = least_risk(arcs, end + 1, best)
        found = least_risk_words(lattice, times, graph_scale)
        assert [word.label for word in found] == [word for word, *_ in expected]
        for word, (_, _, _, confidence) in zip(found, expected, strict=True):
            assert word.confidence == pytest.approx(confidence, abs=1e-5)
        for word, (_, begin, over, _) in zip(found, _overlaps_removed(expected), strict=True):
            assert (word.begin, word.end) == pytest.approx((begin, over), abs=1e-4)


def _overlaps_removed(words: list[tuple[int, float, float, float]]) -> list[HeardWord]:
    return _without_overlaps([HeardWord(*word) for word in words])


def test_words_that_overlap_share_their_time() -> None:
    words = [HeardWord(1, 0, 2, 1), HeardWord(2, 3, 6, 1), HeardWord(3, 5, 8, 1)]
    assert _without_overlaps(words) == [words[0], HeardWord(2, 3, 5.5, 1), HeardWord(3, 5.5, 8, 1)]
    assert _without_overlaps([HeardWord(1, 4, 4, 1), HeardWord(2, 1, 3, 1)]) == [
        HeardWord(1, 1, 1, 1),
        HeardWord(2, 1, 4, 1),
    ]


def test_one_path_is_certain() -> None:
    fst = Fst.from_arcs(0, [np.inf, np.inf, 0], [0, 1], [1, 2], [4, 5])
    ids = Strings(np.array([0, 2, 5]), np.ones(5, np.int32))
    lattice = Lattice(
        fst, np.zeros(2, np.float32), np.zeros(3, np.float32), ids, Strings(np.zeros(4, np.int64), ids.values[:0])
    )
    times = WordTimes(np.array([0, 2]), np.array([2, 5]))
    assert least_risk_words(lattice, times) == [HeardWord(4, 0, 2, 1), HeardWord(5, 2, 5, 1)]


def test_the_best_paths_in_order() -> None:
    for _ in range(10):
        lattice = random_lattice(6)
        paths = paths_of(lattice)
        expected = sorted(cost for costs in paths.values() for cost, _ in costs)
        found = n_best(lattice, 7)
        assert [each.cost for each in found] == pytest.approx(expected[:7], abs=1e-5)
        for each in found:
            words = tuple(word for word, _, _ in each.words)
            assert any(cost == pytest.approx(each.cost, abs=1e-5) for cost, _ in paths[words])
