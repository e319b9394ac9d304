"""When words were spoken: phones of transition-ids, words of phones, along the best path through each arc."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.speech.lattices.word_times import WordBoundaries
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


def test_the_first_word_or_silence_of_a_sequence(boundaries: WordBoundaries) -> None:
    """0 rows where it may go on behind the end, or does not begin a word."""
    model = chain_model()
    said = [((1, 2), (4, 1)), ((2, 1), (5, 2), (3, 1), (1, 1)), ((4, 3), (4, 1)), ((2, 2), (3, 1)), ((3, 1), (4, 1))]
    sequences = [ids_of_phones(model, *phones) for phones in said]
    table = np.zeros((len(said), 6), np.int32)
    for row, ids in zip(table, sequences, strict=True):
        row[: len(ids)] = ids
    rows, is_word = boundaries.first_units(table, np.array([len(ids) for ids in sequences]))
    assert rows.tolist() == [2, 4, 3, 0, 0]
    assert is_word.tolist() == [False, True, True, True, False]


@pytest.mark.parametrize("line", ["1", "x begin", "1 middle", "1 begin 2", f"{'1' * 5000} begin", "² begin"])
def test_lines_that_are_no_boundaries(tmp_path: Path, line: str) -> None:
    (tmp_path / "word_boundary.int").write_text(f"1 nonword\n{line}\n")
    with pytest.raises(ModelFormatError, match="line 2: expected a phone and one of nonword, begin, singleton"):
        WordBoundaries.load(tmp_path / "word_boundary.int", chain_model())
