"""Const-arpa models made of ARPA files: Kaldi's bytes; n-grams without histories or there twice."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nnet3.base.kaldi_io.reader import Reader
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.speech.language_models.const_arpa_file import load_const_arpa
from nnet3.speech.language_models.const_arpa_making import make_const_arpa
from nnet3.speech.language_models.integer_arpa import Ngrams, read_integer_arpa
from tests.asr.golden_const_arpa import CASES, FOLDER, MOST_DISTANCE, contents, needs_rescoring


@needs_rescoring
@pytest.mark.parametrize("case", CASES)
def test_the_files_of_kaldi(case: str) -> None:
    model = load_const_arpa(FOLDER / case / "G.carpa")
    ngrams = read_integer_arpa(Reader.open(FOLDER / case / "lm.arpa"))
    made = make_const_arpa(ngrams, 1, 2, model.unk, MOST_DISTANCE.get(case, 2**30 - 1))
    assert contents(made) == contents(model)
    if (FOLDER / case / "lm.cmd").exists():
        unk = re.findall(r"--unk-symbol=(\d+)", (FOLDER / case / "lm.cmd").read_text())
        assert model.unk == int((*unk, -1)[0])


def _level(*rows: tuple[int, ...]) -> Ngrams:
    zeros = np.zeros(len(rows), np.float32)
    return Ngrams(np.array(rows, np.int32), zeros, zeros)


def test_impossible_models() -> None:
    words = _level((1,), (2,), (3,))
    with pytest.raises(ModelFormatError, match="the 2-gram '4 2' is there, but not '4'"):
        make_const_arpa([words, _level((1, 2), (4, 2))], 1, 2)
    with pytest.raises(ModelFormatError, match="the 3-gram '1 2 3' is there, but not '1 2'"):
        make_const_arpa([words, _level((1, 3)), _level((1, 2, 3))], 1, 2)
    with pytest.raises(ModelFormatError, match="the n-gram '3' is there twice"):
        make_const_arpa([_level((1,), (3,), (2,), (3,))], 1, 2)
    with pytest.raises(ModelFormatError, match="at least one word"):
        make_const_arpa([Ngrams(np.zeros((0, 1), np.int32), *np.zeros((2, 0), np.float32))], 1, 2)
    with pytest.raises(ModelFormatError, match="the unknown word is word 4, but words are 1 to 3"):
        make_const_arpa([words], 1, 2, 4)
    with pytest.raises(ArgumentError, match="different words, got 2"):
        make_const_arpa([words], 2, 2)


def test_ngrams_of_the_highest_order_twice_are_kept() -> None:
    """As in Kaldi, and the first one counts."""
    found = Ngrams(
        np.array([(1, 3), (1, 2), (1, 3)], np.int32), np.array([-1, -2, -3], np.float32), np.zeros(3, np.float32)
    )
    model = make_const_arpa([_level((1,), (2,), (3,)), found], 1, 2)
    assert model.states[2] == 3
