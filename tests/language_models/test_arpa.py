"""ARPA files: what sentences cost as FSTs, by the definition of back-off models; and files that are wrong."""

from __future__ import annotations

import logging
import math
from itertools import product

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst
from nnet3.speech.language_models.arpa import ArpaModel, arpa_fst, parse_arpa, with_ends

TEXT = """a comment

\\data\\
ngram 1=5
ngram 2=4
ngram 3=1

\\1-grams:
-99 <s> -0.3
-0.7 </s>
-0.5\ta\t-0.2
-0.6 b -0.1
-0.9 c

\\2-grams:
-0.2 <s> a -0.25
-0.4 a b -0.15
-0.3 b </s>
-0.8 b a

\\3-grams:
-0.1 <s> a b

\\end\\
"""
LABELS = {"a": 1, "b": 2, "c": 3}
BACK_OFF = 9


def _log10(model: ArpaModel, history: tuple[str, ...], word: str) -> float:
    """By the definition: of the longest history that is there, or with its weight that of a shorter one."""
    if (*history, word) in model.log10:
        return model.log10[(*history, word)]
    return model.back_off.get(history, 0.0) + _log10(model, history[1:], word)


def _cost(fst: Fst, words: tuple[int, ...]) -> float:
    """The cost of the one path that backs off only where it must."""
    state, cost = fst.start, 0.0

    def arcs(label: int) -> list[int]:
        return [a for a in range(fst.offsets[state], fst.offsets[state + 1]) if fst.ilabel[a] == label]

    for word in words:
        while not arcs(word):
            (arc,) = arcs(BACK_OFF)
            state, cost = int(fst.dst[arc]), cost + float(fst.cost[arc])
        (arc,) = arcs(word)
        state, cost = int(fst.dst[arc]), cost + float(fst.cost[arc])
    while np.isinf(fst.final[state]):
        (arc,) = arcs(BACK_OFF)
        state, cost = int(fst.dst[arc]), cost + float(fst.cost[arc])
    return cost + float(fst.final[state])


@pytest.mark.parametrize(("without", "states"), [("", 5), ("-0.4 a b -0.15\n", 4)])
def test_what_sentences_cost(without: str, states: int) -> None:
    """States: nothing, <s>, b, <s> a, and a if an n-gram goes on from there; c goes on as nothing does."""
    model = parse_arpa(TEXT.replace(without, ""), "lm.arpa")
    assert model.words == ["<s>", "</s>", "a", "b", "c"]
    fst = arpa_fst(model, LABELS, BACK_OFF)
    for length in range(4):
        for words in product("abc", repeat=length):
            history: tuple[str, ...] = ("<s>",)
            log10 = 0.0
            for word in (*words, "</s>"):
                log10 += _log10(model, history[-2:], word)
                history = (*history, word)
            assert _cost(fst, tuple(LABELS[word] for word in words)) == pytest.approx(-log10 * math.log(10), rel=1e-5)
    assert set(fst.olabel[fst.ilabel == BACK_OFF]) == {0}
    assert fst.num_states == states


def test_ends_of_sentences_as_words() -> None:
    """Each sentence costs what it does without them, and nothing else is accepted."""
    plain = arpa_fst(parse_arpa(TEXT, "lm.arpa"), LABELS, BACK_OFF)
    begin, end = 4, 5
    fst = with_ends(plain, begin, end)
    for length in range(3):
        for words in product((1, 2, 3), repeat=length):
            assert _cost(fst, (begin, *words, end)) == pytest.approx(_cost(plain, words), rel=1e-6)
    assert np.flatnonzero(fst.final < np.inf).tolist() == np.unique(fst.dst[fst.ilabel == end]).tolist()
    assert fst.ilabel[fst.offsets[fst.start] : fst.offsets[fst.start + 1]].tolist() == [begin]


def test_words_without_labels_are_left_out() -> None:
    fst = arpa_fst(parse_arpa(TEXT, "lm.arpa"), {"a": 1, "b": 2}, BACK_OFF)
    assert set(fst.olabel) == {0, 1, 2}
    with pytest.raises(ModelFormatError, match="no sentence"):
        arpa_fst(parse_arpa(TEXT, "lm.arpa"), {})


def test_sentences_that_begin_or_end_in_the_middle_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    plain = arpa_fst(parse_arpa(TEXT, "lm.arpa"), LABELS, BACK_OFF)
    more = TEXT.replace("ngram 2=4", "ngram 2=6").replace("-0.8 b a\n", "-0.8 b a\n-0.1 a <s>\n-0.1 </s> b\n")
    with caplog.at_level(logging.WARNING, "nnet3"):
        found = arpa_fst(parse_arpa(more, "lm.arpa"), LABELS, BACK_OFF)
    assert caplog.messages == [
        "lm.arpa, line 20: the n-gram 'a <s>' is left out: <s> can only begin and </s> only end one (2 such n-grams)"
    ]
    for words in product((1, 2, 3), repeat=2):
        assert _cost(found, words) == _cost(plain, words)


def test_fewer_ngrams_than_announced_are_no_error() -> None:
    announced = TEXT.replace("ngram 2=4", "ngram 2=5").replace("ngram 3=1", "ngram 3=100")
    assert parse_arpa(announced, "lm.arpa") == parse_arpa(TEXT, "lm.arpa")


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u2028", "\u0085"])
def test_words_may_have_other_blanks_than_ascii(blank: str) -> None:
    word = f"{blank}x{blank}"
    model = parse_arpa(TEXT.replace("\ta\t", f"\t{word}\t").replace(" a", f" {word}"), "lm.arpa")
    assert (word,) in model.log10


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "data", "there is no line .data.: is this a language model"),
        ("\\end\\", "", "there is no line .end."),
        ("ngram 2=4", "ngram 2=3", "expected 3 2-grams at most, as the file says, found 4"),
        ("ngram 2=4", "ngram two=4", "line 5: expected a line such as 'ngram 1=200'"),
        ("ngram 2=4", f"ngram 2={'4' * 5000}", "line 5: expected a line such as 'ngram 1=200'"),
        ("ngram 2=4", "ngram ²=4", "line 5: expected a line such as 'ngram 1=200'"),
        ("\\2-grams:", "\\3-grams:", "expected .2-grams: or .end., got .3-grams:"),
        ("-0.9 c", "-0.9 c d e", "line 13: expected a logarithm not above 0, a word, and maybe one more"),
        ("-0.9 c", "-0.9 a", "line 13: the n-gram 'a' is there twice"),
        ("-0.9 c", "0.9 c", "line 13: expected a logarithm not above 0"),
        ("-0.9 c", "nan c", "line 13"),
        ("-0.8 b a", "-0.8 b", "line 19: expected a logarithm not above 0, 2 words"),
    ],
)
def test_files_that_are_wrong(old: str, new: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        parse_arpa(TEXT.replace(old, new, 1), "lm.arpa")
