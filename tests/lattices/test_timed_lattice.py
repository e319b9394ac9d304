"""Words and silence with their rows: against Kaldi's own, and paths written out."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import Strings, no_strings
from nnet3.errors import ModelFormatError
from nnet3.speech.lattices.bayes_risk import least_risk_words
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.timed_lattice import OtherLabels, TimedLattice, timed_lattice, word_aligned
from nnet3.speech.lattices.word_times import WordBoundaries
from tests.asr.golden_lattices import arrays, boundaries, lattice
from tests.asr.toy_lattices import many_paths, strings_of
from tests.asr.toy_phones import KINDS, chain_model, ids_of_phones

Timed = tuple[tuple[int, int, int], ...]  # label, first row, row behind


def timed_paths(timed: TimedLattice) -> dict[Timed, list[float]]:
    """What is on each path from the start to the end, and what it costs."""
    leaving, found = defaultdict(list), defaultdict[Timed, list[float]](list)
    for src, *arc in zip(
        timed.src.tolist(), timed.dst.tolist(), timed.label.tolist(), timed.cost.tolist(), strict=True
    ):
        leaving[src].append(arc)
    row = timed.row.tolist()
    waiting: list[tuple[int, Timed, float]] = [(0, (), 0.0)]
    while waiting:
        state, path, cost = waiting.pop()
        if state == len(row) - 1:
            found[path].append(cost)
        for dst, label, more in leaving[state]:
            step = ((label, row[state], row[dst]),) if label or row[state] < row[dst] else ()
            waiting.append((dst, path + step, cost + more))
    return found


def test_what_kaldi_makes_of_a_lattice() -> None:
    """As many states and arcs, and the same paths."""
    kaldi = lattice("aligned")
    expected = timed_lattice(kaldi, None)
    found = timed_lattice(lattice("lattice"), boundaries())
    assert (len(found.row), len(found.src)) == (len(expected.row), len(expected.src))
    paths, others = timed_paths(found), timed_paths(expected)
    assert set(paths) == set(others)
    for path, costs in paths.items():
        assert sorted(costs) == pytest.approx(sorted(others[path]), abs=2e-3)


def test_what_vosk_hears() -> None:
    words = least_risk_words(timed_lattice(lattice("lattice"), boundaries()))
    assert np.allclose(
        [(word.label, word.begin, word.end, word.confidence) for word in words], arrays()["words"], atol=2e-3
    )


@pytest.mark.parametrize("kind", ["internal", "begin"])
def test_phones_that_contradict_the_words_are_told_soon(kind: str, tmp_path: Path) -> None:
    """Else each of 2^40 paths would need nodes of its own."""
    (tmp_path / "wb").write_text(f"2 {kind}\n4 internal\n")
    with pytest.raises(ModelFormatError, match="words do not begin and end with their phones: is the file"):
        timed_lattice(many_paths(40), WordBoundaries.load(tmp_path / "wb", chain_model()))
    assert len(timed_lattice(many_paths(40), None).src) == 80


@pytest.fixture
def kinds(tmp_path: Path) -> WordBoundaries:
    (tmp_path / "word_boundary.int").write_text(KINDS)
    return WordBoundaries.load(tmp_path / "word_boundary.int", chain_model())


def _lattice(arcs: list[tuple[int, int, int, float, list[int]]], last: list[int]) -> LabelLattice:
    """States are levels; the last one ends with some ids."""
    src, dst, word, cost, ids = zip(*arcs, strict=True)
    states = dst[-1] + 1
    final = np.full(states, np.inf)
    final[-1] = 0
    columns = np.array(src), np.array(dst), np.array(word), np.array(cost, float), np.zeros(len(arcs))
    return LabelLattice(
        np.arange(states), *columns, strings_of(ids), final, final, strings_of([*[[]] * (states - 1), last])
    )


def test_words_whose_arcs_hold_other_rows(kinds: WordBoundaries) -> None:
    """A label may come in the middle of its word; the rest of the word is then in the string of the arc behind."""
    whole = ids_of_phones(chain_model(), (1, 2), (2, 2), (3, 3), (1, 1), (4, 4), (1, 2))
    said = _lattice([(0, 1, 7, 1.0, whole[:3]), (1, 2, 8, 1.0, whole[3:9])], whole[9:])
    silence = ((0, 0, 2), (7, 2, 7), (0, 7, 8), (8, 8, 12), (0, 12, 14))
    assert timed_paths(timed_lattice(said, kinds)) == {silence: [2.0]}
    assert timed_paths(timed_lattice(said, None)) == {((7, 0, 3), (8, 3, 9), (0, 9, 14)): [2.0]}


def test_each_path_has_times_of_its_own(kinds: WordBoundaries) -> None:
    """Two words in the same rows, of which one begins a row late; costs of the graph are scaled."""
    model = chain_model()
    early, late = ids_of_phones(model, (4, 2), (1, 3)), ids_of_phones(model, (1, 1), (4, 4))
    said = _lattice([(0, 1, 7, 2.0, early), (0, 1, 8, 1.0, late), (1, 2, 9, 0.0, ids_of_phones(model, (4, 2)))], [])
    expected = {
        ((7, 0, 2), (0, 2, 5), (9, 5, 7)): [1.0],
        ((0, 0, 1), (8, 1, 5), (9, 5, 7)): [0.5],
    }
    assert timed_paths(timed_lattice(said, kinds, graph_scale=0.5)) == expected


def test_words_that_are_cut_at_the_end(kinds: WordBoundaries) -> None:
    """What is left at the end is one word, or none."""
    model = chain_model()
    begun = _lattice([(0, 1, 7, 1.0, ids_of_phones(model, (1, 1), (2, 3)))], [])
    assert timed_paths(timed_lattice(begun, kinds)) == {((0, 0, 1), (7, 1, 4)): [1.0]}
    silence = Strings(np.array([0, 3]), np.array(ids_of_phones(model, (1, 3)), np.int32))
    nothing = LabelLattice(
        *(np.zeros(1, np.int64), *np.zeros((3, 0), np.int64), *np.zeros((2, 0)), no_strings(0)),
        *(np.array([0.5]), np.array([0.25]), silence),
    )
    assert timed_paths(timed_lattice(nothing, kinds)) == {((0, 0, 3),): [0.75]}


def test_of_one_word_in_the_same_rows_the_best_is_left(kinds: WordBoundaries) -> None:
    """Without transition-ids, which tell the two apart."""
    model = chain_model()
    alone, two, last = (ids_of_phones(model, *phones) for phones in ([(4, 2)], [(2, 1), (3, 1)], [(4, 1)]))
    said = _lattice([(0, 1, 7, 2.0, alone), (0, 1, 7, 1.0, two), (1, 2, 8, 0.0, last)], [])
    assert timed_paths(timed_lattice(said, kinds)) == {((7, 0, 2), (8, 2, 3)): [1.0]}
    aligned, _ = word_aligned(said, kinds, OtherLabels())
    assert aligned.label.tolist() == [7, 7, 8]


@pytest.mark.parametrize(
    ("phones", "is_whole"),
    [([(2, 1), (3, 2)], True), ([(4, 2)], True), ([(2, 1), (5, 1)], False), ([(5, 1), (3, 1)], False)],
)
def test_a_last_word_is_whole_with_its_first_and_its_last_phone(
    kinds: WordBoundaries, phones: list[tuple[int, int]], is_whole: bool
) -> None:
    said = _lattice([(0, 1, 7, 1.0, ids_of_phones(chain_model(), *phones))], [])
    assert word_aligned(said, kinds, OtherLabels())[1] == is_whole


def test_a_lattice_that_grows_more_than_is_allowed_is_refused(kinds: WordBoundaries) -> None:
    """Two nodes for each of 1200 words."""
    word = ids_of_phones(chain_model(), (4, 2))
    said = _lattice([(state, state + 1, 7, 0.0, word) for state in range(1200)], [])
    whole, _ = word_aligned(said, kinds, OtherLabels())
    for max_expand in (-1.0, 0.0, 2.0, 1e308):
        same, _ = word_aligned(said, kinds, OtherLabels(), max_expand)
        assert same.num_states == whole.num_states
    with pytest.raises(ModelFormatError, match="aligned, it has more than 1120 states, which --max-expand allows"):
        word_aligned(said, kinds, OtherLabels(), max_expand=0.1)
