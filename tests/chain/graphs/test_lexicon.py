"""Lexicons: what lines say, which pronunciations need symbols, and what the FST accepts at which cost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst
from nnet3.training.chain.graphs.lexicon import (
    OptionalSilence,
    Pronunciation,
    lexicon_fst,
    parse_lexicon,
    with_disambiguation,
    with_positions,
)

LEXICON = [
    Pronunciation("a", ("x",)),
    Pronunciation("b", ("x",), 0.5),
    Pronunciation("c", ("x", "y")),
    Pronunciation("d", ("y", "x", "y")),
]
PHONES = {"sil": 1, "x": 2, "y": 3, "#0": 4, "#1": 5, "#2": 6, "#3": 7}
WORDS = {"a": 1, "b": 2, "c": 3, "d": 4, "#0": 5}


def test_lines() -> None:
    assert parse_lexicon("c  x y\n\na x\r\n", "lexicon.txt") == [LEXICON[2], LEXICON[0]]
    assert parse_lexicon("b 0.5 x\n", "lexiconp.txt", with_probabilities=True) == [LEXICON[1]]


@pytest.mark.parametrize(
    ("text", "with_probabilities", "message"),
    [
        ("a x\nb\n", False, "lexicon.txt.*line 2.*'b' has no phones"),
        ("a x\na y\na  x\n", False, "line 3.*'a' is there twice"),
        ("", False, "no words"),
        ("a 0 x", True, "line 1.*a probability above 0, at most 1, got '0'"),
        ("a x", True, "got 'x'"),
        ("a nan x", True, "got 'nan'"),
        ("a", True, "got ''"),
        ("a 0.5", True, "'a' has no phones"),
    ],
)
def test_lines_that_are_wrong(text: str, with_probabilities: bool, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        parse_lexicon(text, "lexicon.txt", with_probabilities)


def test_positions() -> None:
    marked = [each.phones for each in with_positions(LEXICON)]
    assert marked == [("x_S",), ("x_S",), ("x_B", "y_E"), ("y_B", "x_I", "y_E")]


def test_symbols_tell_equal_pronunciations_and_beginnings_apart() -> None:
    marked, largest = with_disambiguation(LEXICON)
    assert [each.phones for each in marked] == [("x", "#1"), ("x", "#2"), ("x", "y"), ("y", "x", "y")]
    assert largest == 2
    assert with_disambiguation(LEXICON[2:]) == (LEXICON[2:], 0)


def _cost(fst: Fst, phones: str, words: str) -> float:
    """The least cost of a path, tried step by step; letters are phones and words."""
    wanted = [PHONES[phone] for phone in phones.split()], [WORDS[word] for word in words.split()]
    best = math.inf
    waiting = [(fst.start, 0, 0, 0.0)]
    while waiting:
        state, i, o, cost = waiting.pop()
        if (i, o) == (len(wanted[0]), len(wanted[1])):
            best = min(best, cost + float(fst.final[state]))
        for arc in range(fst.offsets[state], fst.offsets[state + 1]):
            steps = []
            for label, sequence, place in ((fst.ilabel[arc], wanted[0], i), (fst.olabel[arc], wanted[1], o)):
                if label and (place == len(sequence) or sequence[place] != label):
                    break
                steps.append(place + int(label != 0))
            if len(steps) == 2:
                waiting.append((int(fst.dst[arc]), *steps, cost + float(fst.cost[arc])))
    return best


@pytest.mark.parametrize(
    ("phones", "words", "probability"),
    [
        ("x", "a", 0.75 * 0.75),
        ("sil x", "b", 0.25 * 0.75 * 0.5),
        ("x sil x y", "a c", 0.75 * 0.25 * 0.75),
        ("y x y sil", "d", 0.75 * 0.25),
        ("x sil sil x", "a a", 0.0),
        ("x y", "a", 0.0),
        ("sil", "", 0.25),
    ],
)
def test_what_the_fst_accepts(phones: str, words: str, probability: float) -> None:
    fst = lexicon_fst(LEXICON, PHONES, WORDS, OptionalSilence("sil", 0.25))
    assert math.exp(-_cost(fst, phones, words)) == pytest.approx(probability, rel=1e-6)


def test_with_symbols_silence_is_told_apart_too() -> None:
    marked, largest = with_disambiguation(LEXICON)
    silence = OptionalSilence("sil", 0.5, f"#{largest + 1}")
    fst = lexicon_fst(marked, PHONES, WORDS, silence, (PHONES["#0"], WORDS["#0"]))
    assert _cost(fst, "sil #3 x #1 sil #3 #0 x y", "a #0 c") == pytest.approx(-3 * math.log(0.5), rel=1e-6)
    assert _cost(fst, "sil x #1", "a") == math.inf
    assert _cost(fst, "x", "a") == math.inf


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_silence_never_or_always(probability: float) -> None:
    fst = lexicon_fst(LEXICON, PHONES, WORDS, OptionalSilence("sil", probability))
    assert np.isfinite(fst.cost).all()
    assert _cost(fst, "x y", "c") == (0.0 if probability == 0 else math.inf)
    assert _cost(fst, "sil x y sil", "c") == (math.inf if probability == 0 else 0.0)


def test_a_phone_without_a_label() -> None:
    with pytest.raises(KeyError):
        lexicon_fst([Pronunciation("a", ("z",))], PHONES, WORDS, OptionalSilence("sil"))
