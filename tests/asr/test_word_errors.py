"""Word errors: the counts of known sentences, and the least number of them, by trying all ways."""

from __future__ import annotations

import math
from functools import cache

import pytest
from hypothesis import given, strategies as st

from nnet3.speech.asr.word_errors import WordErrors, aligned_words, word_errors


@pytest.mark.parametrize(
    ("said", "heard", "insertions", "deletions", "substitutions"),
    [
        ("a b c", "a b c", 0, 0, 0),
        ("a b c", "a c", 0, 1, 0),
        ("a c", "a b c", 1, 0, 0),
        ("a b c", "a x c", 0, 0, 1),
        ("", "a b", 2, 0, 0),
        ("a b", "", 0, 2, 0),
        ("a b", "b a", 1, 1, 0),  # and not two replaced: Kaldi replaces only where that is cheaper
        ("", "", 0, 0, 0),
    ],
)
def test_errors(said: str, heard: str, insertions: int, deletions: int, substitutions: int) -> None:
    found = word_errors(said.split(), heard.split())
    assert (found.insertions, found.deletions, found.substitutions) == (insertions, deletions, substitutions)
    assert (found.words, found.sentences) == (len(said.split()), 1)
    assert found.wrong_sentences == (said != heard)


@given(st.text("abc", max_size=7), st.text("abc", max_size=7))
def test_errors_are_as_few_as_can_be(said: str, heard: str) -> None:
    @cache
    def fewest(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        replaced = fewest(i - 1, j - 1) + (said[i - 1] != heard[j - 1])
        return min(replaced, fewest(i - 1, j) + 1, fewest(i, j - 1) + 1)

    found = word_errors(said, heard)
    assert found.errors == fewest(len(said), len(heard))
    assert found.insertions - found.deletions == len(heard) - len(said)


def test_counts_add_up() -> None:
    total = word_errors("abc", "abd") + word_errors("a", "a") + word_errors("", "a")
    assert total == WordErrors(4, 1, 0, 1, 3, 2)
    assert total.rate == 0.5
    assert total.sentence_rate == 2 / 3
    assert math.isnan(WordErrors().rate)
    assert math.isnan(WordErrors().sentence_rate)


@pytest.mark.parametrize(
    ("first", "second", "pairs"),
    [
        ("a b", "a b", "aa bb"), ("a b c", "a c", "aa b- cc"), ("a c", "a b c", "aa -b cc"), ("", "a", "-a"),
        ("a", "", "a-"), ("", "", ""), ("x y z", "x q y", "xx yq zy"), ("a a b", "b", "a- a- bb"),
        ("a", "b b", "-b ab"),
    ],
)  # fmt: skip
def test_words_side_by_side(first: str, second: str, pairs: str) -> None:
    found = aligned_words(first.split(), second.split(), "-")
    assert ["".join(pair) for pair in found] == pairs.split()


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_side_by_side_words_differ_as_little_as_can_be(first: str, second: str) -> None:
    found = aligned_words(list(first), list(second), "-")
    assert "".join(one for one, _ in found if one != "-") == first
    assert "".join(other for _, other in found if other != "-") == second
    assert sum(one != other for one, other in found) == word_errors(list(first), list(second)).errors
