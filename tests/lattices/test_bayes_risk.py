"""Words with the least risk, against the recursion written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnet3.speech.lattices import native_words
from nnet3.speech.lattices.bayes_risk import HeardWord, _move_left, _parts, least_risk_words, sausages, without_overlaps
from nnet3.speech.lattices.native_words import risk_rows
from nnet3.speech.lattices.timed_lattice import TimedLattice
from tests.asr.slow_bayes_risk import Arc, least_risk
from tests.effort import EFFORT
from tests.native.native_code import needs_native_code
from tests.seeds import RANDOM


def random_lattice(states: int, words: int = 3) -> TimedLattice:
    """A lattice in which state s is row s, with arcs that skip states."""
    more = 2 * states * (states > 1)
    src = np.concatenate([np.arange(states - 1), RANDOM.integers(0, max(states - 1, 1), more)])
    dst = np.append(np.arange(1, states), src[states - 1 :] + RANDOM.integers(1, 3, more)).clip(max=states - 1)
    order = np.argsort(src, kind="stable")
    word, cost = RANDOM.integers(0, words + 1, len(src)), RANDOM.normal(size=len(src))
    return TimedLattice(np.arange(states), src[order], dst[order], word, cost)


def test_the_recursion() -> None:
    """Ways to align words are often equally far but for the last bits of sums, which decide as in Kaldi."""
    for _ in range(100 * EFFORT):
        lattice = random_lattice(int(RANDOM.integers(2, 16)))
        columns = (lattice.src, lattice.dst, lattice.label, lattice.cost, lattice.src, lattice.dst)
        arcs = [Arc(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        expected = least_risk(arcs, len(lattice.row), _best_words(arcs, len(lattice.row)))
        found = least_risk_words(lattice)
        assert [word.label for word in found] == [word for word, *_ in expected]
        for word, (_, _, _, confidence) in zip(found, expected, strict=True):
            assert word.confidence == pytest.approx(confidence, abs=1e-5)
        for word, (_, begin, over, _) in zip(found, _overlaps_removed(expected), strict=True):
            assert (word.begin, word.end) == pytest.approx((begin, over), abs=1e-4)


def _best_words(arcs: list[Arc], states: int) -> list[int]:
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for state in range(1, states):
        into = [(best[arc.src][0] + arc.cost, [*best[arc.src][1], arc.word]) for arc in arcs if arc.dst == state]
        best[state] = min(into)
    return [word for word in best[states - 1][1] if word]


def _overlaps_removed(words: list[tuple[int, float, float, float]]) -> list[HeardWord]:
    return without_overlaps([HeardWord(*word) for word in words])


@pytest.mark.parametrize(
    ("arcs", "words"),
    [
        ([(0, 1, 1, 1), (0, 2, 0, 1), (1, 2, 2, 0)], [2]),
        ([(0, 1, 0, 1), (0, 1, 1, 0), (0, 1, 1, 1), (1, 2, 2, 1), (1, 2, 0, 1), (1, 2, 1, 1)], [1, 2]),
    ],
)
def test_of_equal_paths_the_first_begins_the_search(arcs: list[tuple[int, ...]], words: list[int]) -> None:
    """Arcs: source, destination, word, cost. The words are those of Kaldi's lattice-mbr-decode."""
    src, dst, label, cost = np.array(arcs).T
    lattice = TimedLattice(np.arange(3), src, dst, label, cost.astype(float))
    assert [word.label for word in least_risk_words(lattice)] == words
    assert [word.label for word in sausages(lattice).heard()] == words


def test_a_search_that_is_broken_off_has_the_bins_of_its_last_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3.speech.lattices.bayes_risk._MOST_ROUNDS", 1)
    for _ in range(20):
        found = sausages(random_lattice(12))
        assert len(found.chosen) == len(found.share)


@needs_native_code
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_words_in_c_are_those_of_python_to_the_last_bit(scale: float) -> None:
    """Whole costs make paths of equal costs."""
    for number in range(100 * EFFORT):
        lattice = random_lattice(int(RANDOM.integers(1, 24)), int(RANDOM.integers(0, 6)))
        cost = scale * lattice.cost
        lattice = replace(lattice, cost=np.round(cost) if number % 3 == 0 else cost)
        assert risk_rows(lattice) is not None
        native = least_risk_words(lattice)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native_words, "library", lambda: None)
            assert least_risk_words(lattice) == native


@needs_native_code
def test_c_gives_up_for_infinite_costs_and_cycles() -> None:
    lattice = random_lattice(6)
    assert risk_rows(replace(lattice, cost=np.where(np.arange(len(lattice.cost)), lattice.cost, np.inf))) is None
    assert risk_rows(replace(lattice, src=lattice.dst, dst=lattice.src)) is not None
    assert risk_rows(replace(lattice, src=lattice.dst)) is None


def test_small_probabilities_are_not_lost_beside_large_ones() -> None:
    """Columns are positions; the third one moves to the second, and no other."""
    values, moves = np.array([[1e-20, 1.0, 1e-20, 1.0]]), np.array([[False, True, False]])
    np.testing.assert_array_equal(_move_left(values, moves), [[1e-20, 1 + 1e-20, 1e-20, 1.0]])


def test_words_that_overlap_share_their_time() -> None:
    words = [HeardWord(1, 0, 2, 1), HeardWord(2, 3, 6, 1), HeardWord(3, 5, 8, 1)]
    assert without_overlaps(words) == [words[0], HeardWord(2, 3, 5.5, 1), HeardWord(3, 5.5, 8, 1)]
    assert without_overlaps([HeardWord(1, 4, 4, 1), HeardWord(2, 1, 3, 1)]) == [
        HeardWord(1, 1, 1, 1),
        HeardWord(2, 1, 4, 1),
    ]


def test_a_long_lattice_is_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cut where all paths meet; what is certain stays as it is."""
    parts = [random_lattice(int(RANDOM.integers(5, 9))) for _ in range(4)]
    begins = np.cumsum([0, *(len(part.row) - 1 for part in parts)])
    columns = [
        np.concatenate([getattr(part, name) + begin * shifts for part, begin in zip(parts, begins, strict=False)])
        for name, shifts in (("src", 1), ("dst", 1), ("label", 0), ("cost", 0))
    ]
    whole = TimedLattice(np.arange(begins[-1] + 1), *columns)
    certain = replace(whole, cost=1e4 * whole.cost)
    together = least_risk_words(certain)
    monkeypatch.setattr("nnet3.speech.lattices.bayes_risk._LEAST_STATES", 4)
    cut = list(_parts(whole))
    assert len(cut) >= 2
    assert sorted(np.concatenate([part.cost for part in cut])) == sorted(whole.cost)
    assert [part.row[0] for part in cut[1:]] == [part.row[-1] for part in cut[:-1]]
    assert min(len(part.row) for part in cut[:-1]) > 4
    assert np.allclose(least_risk_words(certain), together)


def test_one_path_is_certain() -> None:
    lattice = TimedLattice(
        np.array([0, 2, 5]), np.array([0, 1]), np.array([1, 2]), np.array([4, 5]), np.array([1.0, 2])
    )
    assert least_risk_words(lattice) == [HeardWord(4, 0, 2, 1), HeardWord(5, 2, 5, 1)]


def test_of_words_that_are_as_probable_in_single_precision_the_larger_label_is_taken() -> None:
    none, to_end = np.zeros(3, np.int64), np.full(3, 1)
    lattice = TimedLattice(np.arange(2), none, to_end, np.array([4, 9, 7]), np.array([0, 1e-9, 0.5]))
    assert [word.label for word in least_risk_words(lattice)] == [9]


def test_where_no_word_is_a_gap_has_no_length() -> None:
    """All arcs of the lattice have words, so what is between words begins where it ends."""
    for _ in range(20):
        lattice = random_lattice(9)
        bins = sausages(replace(lattice, label=lattice.label + 1))
        assert bins.share[:, 0].any()
        np.testing.assert_allclose(bins.begin[:, 0], bins.end[:, 0], atol=1e-9)
