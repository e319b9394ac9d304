"""Lexicons with the phones of a model: which forms of phones, which words, and where words lie among phones."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnet3.errors import ArgumentError, ModelFormatError, Nnet3Error
from nnet3.speech.asr.pronouncing import Lexicon

PHONES = {"<eps>": 0, "SIL": 1, "a": 2, "b": 3, "c": 4, "#0": 5}
IN_POSITION = {
    "SIL": 1,
    "NOISE_S": 2,
    **{f"{p}_{k}": n for n, (p, k) in enumerate(((p, k) for p in "ab" for k in "BIES"), 3)},
}


def test_files_with_and_without_probabilities(tmp_path: Path) -> None:
    (tmp_path / "lexicon.txt").write_text("x a b\nx a\ny c\n")
    (tmp_path / "lexiconp.txt").write_text("x 1.0 a b\nx 0.5 a\n")
    (tmp_path / "phones.txt").write_text("".join(f"{name} {number}\n" for name, number in PHONES.items()))
    lexicon = Lexicon.load(tmp_path / "lexicon.txt", tmp_path / "phones.txt")
    assert {word: [p.phones for p in ways] for word, ways in lexicon.pronunciations.items()} == {
        "x": [("a", "b"), ("a",)],
        "y": [("c",)],
    }
    assert lexicon.silence == "SIL"
    probable = Lexicon.load(tmp_path / "lexiconp.txt", PHONES)
    assert [each.probability for each in probable.pronunciations["x"]] == [1.0, 0.5]
    (tmp_path / "wrong.txt").write_text("x a b\ny q\n")
    with pytest.raises(ArgumentError, match=r"wrong\.txt: the word 'y' has the phone 'q', which the model lacks"):
        Lexicon.load(tmp_path / "wrong.txt", PHONES)
    (tmp_path / "wrong.txt").write_text("x\n")
    with pytest.raises(ModelFormatError, match="the word 'x' has no phones"):
        Lexicon.load(tmp_path / "wrong.txt", PHONES)
    (tmp_path / "wrong.txt").write_bytes(b"\xff\xfe a\n")
    with pytest.raises(ArgumentError, match="text in UTF-8"):
        Lexicon.load(tmp_path / "wrong.txt", PHONES)


def test_phones_that_say_where_they_stand() -> None:
    lexicon = Lexicon({"x": ["a b a"], "y": ["b"], "noise": ["NOISE_S"]}, IN_POSITION)
    ways = {word: ways[0].phones for word, ways in lexicon.pronunciations.items()}
    assert ways == {"x": ("a_B", "b_I", "a_E"), "y": ("b_S",), "noise": ("NOISE_S",)}
    with pytest.raises(ArgumentError, match="the word 'z' has the phone 'q'"):
        Lexicon({"x": ["a b"], "z": ["a q"]}, IN_POSITION)


def test_words_that_are_not_there() -> None:
    lexicon = Lexicon({"x": ["a"], "<unk>": ["c"]}, PHONES, unknown="<unk>")
    assert lexicon.spoken(["x", "q"]) == ["x", "<unk>"]
    many = Lexicon({"x": "a"}, PHONES)
    with pytest.raises(ArgumentError, match=r"lacks 'w0', 'w1'.* and 5 more: add"):
        many.spoken([f"w{k}" for k in range(15)])
    for given, message in (
        ({"unknown": "q"}, "the word for unknown words, 'q', is not in the lexicon"),
        ({"silence": "q"}, "the phone of silence has the phone 'q'"),
        ({"silence_probability": 1.0}, "silence_probability must be"),
    ):
        with pytest.raises(ArgumentError, match=message):
            Lexicon({"x": ["a"]}, PHONES, **given)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="without phones"):
        Lexicon({"x": [""]}, PHONES)
    with pytest.raises(ArgumentError, match="pronunciations must be a dictionary"):
        Lexicon(None, PHONES)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("phones", "words", "spans"),
    [
        ("a b", "x", [(0, 2)]),
        ("SIL a b SIL", "x", [(1, 3)]),
        ("a b SIL a", "x x", [(0, 2), (3, 4)]),
        ("a a b", "x x", [(0, 1), (1, 3)]),
        ("SIL a SIL b a b", "x y x", [(1, 2), (3, 4), (4, 6)]),
        ("a b", "x y", [(0, 1), (1, 2)]),
    ],
)
def test_where_words_lie_among_phones(phones: str, words: str, spans: list[tuple[int, int]]) -> None:
    lexicon = Lexicon({"x": ["a b", "a"], "y": ["b"]}, PHONES)
    assert lexicon.split([PHONES[name] for name in phones.split()], words.split()) == spans


def test_phones_of_other_words() -> None:
    with pytest.raises(Nnet3Error, match="not those of the words"):
        Lexicon({"x": ["a"]}, PHONES).split([3], ["x"])
