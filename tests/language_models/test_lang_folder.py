"""Folders of dictionaries: the files in them fit together, and what is wrong is said."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.symbols import load_symbols
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader, load_fst
from nnet3.model.hmm.topology import read_topology
from nnet3.options import LangOptions
from nnet3.speech.language_models.lang_folder import Dictionary, write_lang

FILES = {
    "lexicon.txt": "<UNK> SPN\na x\nb x\nc x y\n",
    "silence_phones.txt": "SIL\nSPN\n",
    "nonsilence_phones.txt": "x\ny\n",
    "optional_silence.txt": "SIL\n",
}


@pytest.fixture
def dictionary(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_labels_and_lists(dictionary: Path, tmp_path: Path) -> None:
    write_lang(Dictionary.load(dictionary), "<UNK>", tmp_path / "lang", LangOptions(False))
    lang = tmp_path / "lang"
    phones, words = (load_symbols(lang / name).names for name in ("phones.txt", "words.txt"))
    assert list(phones.values()) == ["<eps>", "SIL", "SPN", "x", "y", "#0", "#1", "#2", "#3"]
    assert list(words.values()) == ["<eps>", "<UNK>", "a", "b", "c", "#0", "<s>", "</s>"]
    assert (lang / "oov.int").read_text() == "1\n"
    assert (lang / "phones/disambig.int").read_text() == "5\n6\n7\n8\n"
    assert (lang / "phones/silence.int").read_text() == "1\n2\n"
    assert not (lang / "phones/word_boundary.int").exists()
    assert read_topology(Reader.open(lang / "topo")).phones.tolist() == [1, 2, 3, 4]
    for name, with_symbols in (("L.fst", False), ("L_disambig.fst", True)):
        fst = load_fst(str(lang / name))
        assert (fst.ilabel.max() > 4) == with_symbols
        assert all((np.diff(fst.ilabel[a:b]) >= 0).all() for a, b in zip(fst.offsets, fst.offsets[1:], strict=False))


def test_phones_by_position(dictionary: Path, tmp_path: Path) -> None:
    write_lang(Dictionary.load(dictionary), "<UNK>", tmp_path / "lang", LangOptions())
    phones = load_symbols(tmp_path / "lang/phones.txt")
    boundaries = dict(line.split() for line in (tmp_path / "lang/phones/word_boundary.int").read_text().splitlines())
    kinds = {phones[int(number)]: kind for number, kind in boundaries.items()}
    assert kinds["SIL"] == kinds["SPN"] == "nonword"
    assert (kinds["x_B"], kinds["y_E"], kinds["x_S"], kinds["SPN_I"]) == ("begin", "end", "singleton", "internal")
    fst = load_fst(str(tmp_path / "lang/L.fst"))
    assert {phones[label] for label in fst.ilabel.tolist()} == {"<eps>", "SIL", "SPN_S", "x_S", "x_B", "y_E"}


def test_with_probabilities(dictionary: Path) -> None:
    (dictionary / "lexiconp.txt").write_text("a 0.25 x\n")
    assert [each.probability for each in Dictionary.load(dictionary).lexicon] == [0.25]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("lexicon.txt", "a x z\n", "the word 'a' has the phone 'z', which is in neither"),
        ("lexicon.txt", "#0 x\n", "no word of a lexicon can be called '#0'"),
        ("lexicon.txt", "a\n", "lexicon.txt: line 1: the word 'a' has no phones"),
        ("lexicon.txt", "a x\n", "the word for unknown ones, '<UNK>', is not in the lexicon"),
        ("optional_silence.txt", "x\n", "the optional silence 'x' is not in silence_phones.txt"),
        ("optional_silence.txt", "SIL SPN\n", "optional_silence.txt: expected one phone"),
        ("nonsilence_phones.txt", "x\ny\nx\n", "the phone 'x' is there twice"),
        ("nonsilence_phones.txt", "x\ny\n#1\n", "no phone can be called '#1'"),
        ("silence_phones.txt", None, "silence_phones.txt: cannot read this file"),
    ],
)
def test_dictionaries_that_are_wrong(
    dictionary: Path, tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    if text is None:
        (dictionary / name).unlink()
    else:
        (dictionary / name).write_text(text)
    with pytest.raises(ModelFormatError, match=re.escape(message)):
        write_lang(Dictionary.load(dictionary), "<UNK>", tmp_path / "lang", LangOptions())
    assert not (tmp_path / "lang").exists()
