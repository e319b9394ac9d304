"""Words that can come next in a graph and in a model, against a look at each."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nnet3.base.kaldi_io.fst_const import LabelReach
from nnet3.kaldi_io import Fst
from nnet3.speech.language_models.language_model import BackoffModel
from nnet3.speech.search import words_ahead
from nnet3.speech.search.words_ahead import ReachedWords, WordsAhead, _sums_before, _sums_before_with_numpy
from tests.native.native_code import needs_native_code
from tests.seeds import RANDOM, shifted

STATES, HISTORIES, WORDS = 30, 12, 40


def reach(final_label: int = WORDS + 1) -> LabelReach:
    """Some states reach many short intervals, others few or none."""
    edges = [
        np.sort(RANDOM.choice(np.arange(1, WORDS + 3), 2 * int(n), replace=False))
        for n in RANDOM.integers(0, 15, STATES)
    ]
    offsets = np.append(0, np.cumsum([len(each) // 2 for each in edges]))
    flat = np.concatenate(edges).reshape(-1, 2)
    return LabelReach(final_label, offsets, flat[:, 0], flat[:, 1])


def model() -> BackoffModel:
    arcs = [(k, w) for k in range(HISTORIES) for w in range(1, WORDS + 1) if RANDOM.random() < (0.05, 0.5, 0.0)[k % 3]]
    src, word = np.array(arcs).T
    final = np.where(RANDOM.random(HISTORIES) < 0.3, 2.0, np.inf)
    return BackoffModel(Fst.from_arcs(0, final, src, np.zeros(len(src)), word, 12 * RANDOM.random(len(src))))


def test_what_can_come_next() -> None:
    for _ in range(5):
        intervals, lm = reach(), model()
        state, history = np.divmod(np.arange(STATES * HISTORIES), HISTORIES)
        found = WordsAhead(ReachedWords(intervals), lm).look(state, history)
        singles = 0
        for place, (q, k) in enumerate(zip(state.tolist(), history.tolist(), strict=True)):
            labels = {
                label
                for at in range(intervals.offsets[q], intervals.offsets[q + 1])
                for label in range(intervals.begin[at], intervals.end[at])
            }
            arcs = [arc for arc in range(lm.first_arc[k], lm.first_arc[k + 1]) if lm.words[arc] in labels]
            final = lm.final[k] if WORDS + 1 in labels else np.inf
            assert found.is_some[place] == bool(arcs or final < np.inf)
            if len(arcs) == 1 and final == np.inf:
                singles += 1
                assert (found.only[place], found.cost[place]) == (arcs[0], 0)
            elif found.is_some[place]:
                total = -np.log(np.exp(-lm.cost[arcs].astype(float)).sum()) if arcs else np.inf
                assert found.only[place] == -1
                assert found.cost[place] == pytest.approx(min(total, final), abs=1e-5)
        assert singles > 3


@needs_native_code
def test_c_finds_what_numpy_finds() -> None:
    """To the last bit, also for intervals in any order and such that overlap or are empty."""
    for _ in range(20):
        intervals, lm = reach(), model()
        if RANDOM.random() < 0.5:
            begin = RANDOM.integers(0, WORDS, len(intervals.begin), np.int32)
            end = (begin + RANDOM.integers(0, 9, len(begin))).astype(np.int32)
            intervals = LabelReach(WORDS + 1, intervals.offsets, begin, end)
        ahead = WordsAhead(ReachedWords(intervals), lm)
        pairs = RANDOM.integers(0, STATES, 100), RANDOM.integers(0, HISTORIES, 100)
        for mine, theirs in zip(ahead._by_intervals(*pairs), ahead._by_intervals_with_numpy(*pairs), strict=True):
            assert mine.dtype == theirs.dtype
            assert np.array_equal(mine, theirs)


def test_small_sums_behind_large_ones() -> None:
    """The cost of a rare word is exact though all words before it are frequent."""
    costs = np.append(np.full(1000, 7.0), 40.0)
    lm = BackoffModel(Fst.from_arcs(0, [np.inf], np.zeros(1001), np.zeros(1001), np.arange(1, 1002), costs))
    reached = ReachedWords(LabelReach(1003, np.array([0, 2]), np.array([1001, 1003]), np.array([1002, 1004])))
    assert WordsAhead(reached, lm).look(np.array([0]), np.array([0])).only.tolist() == [1000]


def test_sums_of_groups_of_any_length() -> None:
    rng = np.random.default_rng(shifted(0))
    for _ in range(30):
        counts = rng.choice([0, 1, 2, 3, 5, 63, 64, 65, 66, 200], size=rng.integers(1, 40))
        offsets = np.append(0, np.cumsum(counts))
        values = rng.random(offsets[-1])
        groups = [values[first:end] for first, end in itertools.pairwise(offsets)]
        expected = [sum(group[:place]) for group in groups for place in range(len(group))]
        found = _sums_before_with_numpy(values, offsets)
        assert np.allclose(found[: len(values)], expected, rtol=1e-12, atol=0)
        assert np.array_equal(_sums_before(values, offsets)[: len(values)], found[: len(values)])


def test_words_within_reach() -> None:
    """Against a look at each label; a state may reach none, and a model may have a word in its last block only."""
    for _ in range(5):
        intervals, lm = reach(), model()
        reached = ReachedWords(intervals)
        state, word = np.divmod(np.arange(STATES * (WORDS + 3)), WORDS + 3)
        labels = [set[int]() for _ in range(STATES)]
        for q, some in enumerate(labels):
            for at in range(intervals.offsets[q], intervals.offsets[q + 1]):
                some.update(range(intervals.begin[at], intervals.end[at]))
        assert reached.has(state, word).tolist() == [w in labels[q] for q, w in zip(state, word, strict=True)]
        assert reached.can_end(np.arange(STATES)).tolist() == [WORDS + 1 in some for some in labels]
        known = set(lm.words.tolist())
        for block in (1, 7, 4096):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(words_ahead, "_WORDS_AT_ONCE", block)
                assert [reached.has_any(q, lm) for q in range(STATES)] == [bool(known & some) for some in labels]
    none = ReachedWords(LabelReach(WORDS + 1, np.zeros(3, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32)))
    assert not none.has(np.array([0, 1]), np.array([1, 2])).any()
    assert not none.can_end(np.array([0, 1])).any()


@pytest.mark.parametrize("final_label", [1, WORDS // 2, WORDS + 1, WORDS + 3])
def test_a_path_can_end_where_the_final_label_is_reached(final_label: int) -> None:
    """OpenFst numbers labels in the order in which a search from the start finds them: the final one too."""
    intervals = reach(final_label)
    limits = list(zip(intervals.begin.tolist(), intervals.end.tolist(), strict=True))
    expected = [
        any(begin <= final_label < end for begin, end in limits[first:behind])
        for first, behind in itertools.pairwise(intervals.offsets.tolist())
    ]
    assert ReachedWords(intervals).can_end(np.arange(STATES)).tolist() == expected
