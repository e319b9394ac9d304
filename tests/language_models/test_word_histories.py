"""WordHistories: histories made in any order, and asked at any time, have what the network says of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnet3.errors import ArgumentError
from tests.asr.small_rnnlm import KINDS, WORDS, scores_of_whole, small_rnnlm
from tests.seeds import shifted


@pytest.mark.parametrize("kind", KINDS)
def test_states_go_on_independently(kind: str) -> None:
    rng = np.random.default_rng(shifted(3))
    table = small_rnnlm(kind, batchnorm_test_mode=True).histories()
    words: list[list[int]] = [[]]
    for _ in range(8):
        parents, more = rng.integers(0, len(words), 7), rng.integers(1, WORDS, 7)
        numbers = table.extend(parents, more)
        assert numbers.tolist() == list(range(len(words), len(words) + 7))
        words += [[*words[parent], word] for parent, word in zip(parents.tolist(), more.tolist(), strict=True)]
        if rng.random() < 0.5:
            asked = int(rng.integers(0, len(words)))
            np.testing.assert_allclose(
                table.log_probs([asked])[0, 1:], scores_of_whole(kind, words[asked])[1:], atol=2e-5
            )
            assert table.log_prob(asked, 4) == pytest.approx(scores_of_whole(kind, words[asked])[4], abs=2e-5)
    for number in rng.integers(0, len(words), 12).tolist():
        np.testing.assert_allclose(
            table.log_probs([number])[0, 1:], scores_of_whole(kind, words[number])[1:], atol=2e-5
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_word_by_word(kind: str) -> None:
    table, history = small_rnnlm(kind, batchnorm_test_mode=True).histories(), 0
    sentence = np.random.default_rng(shifted(4)).integers(1, WORDS, 9).tolist()
    for length, word in enumerate(sentence):
        expected = scores_of_whole(kind, sentence[:length])[word]
        assert table.log_prob(history, word) == pytest.approx(expected, abs=2e-5)
        (history,) = table.extend([history], [word]).tolist()


def test_normalised_probabilities_sum_to_one() -> None:
    plain = small_rnnlm("lstm")
    plain.options = type(plain.options)(1, 2, 3, normalize_probs=True)
    table = plain.histories()
    some = table.extend([0, 0, 0], [4, 5, 6])
    all_words = table.log_probs(some)
    np.testing.assert_allclose(all_words.exp().sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(table.log_probs(some, [7, 8, 2]), all_words[range(3), [7, 8, 2]], atol=1e-5)
    assert table.log_prob(1, 7) == pytest.approx(float(all_words[0, 7]), abs=1e-5)


def test_histories_not_computed_yet_have_no_sums() -> None:
    plain = small_rnnlm("lstm")
    plain.options = type(plain.options)(1, 2, 3, normalize_probs=True)
    table, asked_at_once = plain.histories(), plain.histories()
    table.outputs([0])
    for each in (table, asked_at_once):
        each.extend([0, 0], [4, 5])
    table.log_prob(0, 4)
    assert table.log_prob(2, 7) == pytest.approx(float(asked_at_once.log_probs([2], [7])[0]), abs=1e-5)


@pytest.mark.parametrize(
    ("histories", "words", "message"),
    [
        ([1], [4], "histories 0 to 0, got 1 to 1"),
        ([-1], [4], "histories 0 to 0, got -1"),
        ([0], [0], "words are 1 to 8, as the RNNLM has them, got 0"),
        ([0], [9], "words are 1 to 8, as the RNNLM has them, got 9"),
        ([0, 0], [4], "as many histories as words are needed, got 2 and 1"),
        (None, [4], "histories must be numbers, got None"),
        ([0], [4.0], r"words must be numbers, got \[4.0\]"),
        ([0], [2**64 - 1], "words are 1 to 8, as the RNNLM has them, got -1"),
    ],
)
def test_what_is_not_there_is_refused(histories: Any, words: Any, message: str) -> None:
    table = small_rnnlm("tdnn").histories()
    with pytest.raises(ArgumentError, match=message):
        table.extend(histories, words)
    with pytest.raises(ArgumentError):
        table.log_probs(histories, words)
    assert len(table) == 1
