"""When words were spoken: phones of transition-ids, words of phones, along the best path through each arc."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.asr.word_times import WordBoundaries, word_times
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst
from nnet3.kaldi_io.lattice import Lattice, Strings
from tests.asr.toy_phones import KINDS, PHONES, chain_model, hmm_model, ids_of_phones


@pytest.fixture
def boundaries(tmp_path: Path) -> WordBoundaries:
    (tmp_path / "word_boundary.int").write_text(KINDS)
    return WordBoundaries.load(tmp_path / "word_boundary.int", chain_model())


def test_phones_of_chain_models(boundaries: WordBoundaries) -> None:
    ids = ids_of_phones(chain_model(), (1, 2), (2, 1), (3, 3), (3, 1), (4, 2))
    starts = boundaries.phone_starts(np.array([ids]))[0]
    assert np.flatnonzero(starts).tolist() == [0, 2, 3, 6, 7]


def test_phones_of_several_states() -> None:
    """Self-loops may come behind the transition that leaves a state, or before it."""
    model = hmm_model()
    ids = np.arange(1, model.num_transition_ids + 1)
    table = np.column_stack([model.phone(ids), model.hmm_state(ids), model.is_self_loop(ids)])
    of = {tuple(row): int(i) for i, row in zip(ids, table.astype(int).tolist(), strict=True)}
    boundaries = WordBoundaries(model, np.ones(PHONES + 1, bool), np.zeros(PHONES + 1, bool))
    behind = [(2, 0, 0), (2, 0, 1), (2, 1, 0), (2, 1, 1), (2, 1, 1), (2, 0, 0), (2, 1, 0), (3, 0, 0), (3, 1, 0)]
    before = [(2, 0, 1), (2, 0, 0), (2, 1, 1), (2, 1, 0), (3, 0, 1), (3, 0, 0), (3, 1, 0), (3, 0, 0), (3, 1, 0)]
    for rows, expected in ((behind, [0, 5, 7]), (before, [0, 4, 7])):
        starts = boundaries.phone_starts(np.array([[of[row] for row in rows]]))[0]
        assert np.flatnonzero(starts).tolist() == expected


def test_words_of_phones(boundaries: WordBoundaries) -> None:
    ids = ids_of_phones(chain_model(), (1, 2), (2, 2), (5, 1), (3, 2), (4, 1), (1, 3), (4, 2))
    begin, end = boundaries.words(np.array([ids] * 4), np.arange(4))
    assert (begin.tolist(), end.tolist()) == ([2, 7, 11, -1], [7, 8, 13, -1])


def _lattice(arcs: list[tuple[int, int, int, float, list[int]]], states: int, last: list[int]) -> Lattice:
    src, dst, word, cost, ids = zip(*arcs, strict=True)
    final = np.full(states, np.inf)
    final[-1] = 0
    strings = Strings(np.append(0, np.cumsum([len(each) for each in ids])), np.concatenate(ids).astype(np.int32))
    finals = Strings(np.append(np.zeros(states, np.int64), len(last)), np.array(last, np.int32))
    none = np.zeros(len(arcs), np.float32)
    return Lattice(Fst.from_arcs(0, final, src, dst, word, cost), none, np.zeros(states, np.float32), strings, finals)


def test_words_whose_arcs_hold_other_rows(boundaries: WordBoundaries) -> None:
    """A label may come in the middle of its word; the rest of the word is then in the string of the arc behind."""
    whole = ids_of_phones(chain_model(), (1, 2), (2, 2), (3, 3), (1, 1), (4, 4), (1, 2))
    lattice = _lattice([(0, 1, 7, 1.0, whole[:3]), (1, 2, 8, 1.0, whole[3:9])], 3, whole[9:])
    times = word_times(lattice, boundaries)
    assert (times.begin.tolist(), times.end.tolist()) == ([2, 8], [7, 12])
    approximate = word_times(lattice, None)
    assert (approximate.begin.tolist(), approximate.end.tolist()) == ([0, 3], [3, 9])


def test_each_arc_has_the_times_of_the_best_path_through_it(boundaries: WordBoundaries) -> None:
    """Two words in the same rows; the cheaper one decides where the word behind both is said to begin."""
    model = chain_model()
    early, late = ids_of_phones(model, (4, 2), (1, 3)), ids_of_phones(model, (1, 1), (4, 4))
    end = ids_of_phones(model, (4, 2))
    lattice = _lattice([(0, 1, 7, 2.0, early), (0, 1, 8, 1.0, late), (1, 2, 9, 0.0, end)], 3, [])
    times = word_times(lattice, boundaries)
    assert (times.begin.tolist(), times.end.tolist()) == ([0, 1, 5], [2, 5, 7])


@pytest.mark.parametrize("line", ["1", "x begin", "1 middle", "1 begin 2"])
def test_lines_that_are_no_boundaries(tmp_path: Path, line: str) -> None:
    (tmp_path / "word_boundary.int").write_text(f"1 nonword\n{line}\n")
    with pytest.raises(ModelFormatError, match="line 2: expected a phone and one of nonword, begin, singleton"):
        WordBoundaries.load(tmp_path / "word_boundary.int", chain_model())
