"""Files of sampling LMs: Kaldi's byte for byte, and damaged ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.base.options.rnnlm import SamplingLmOptions
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader, Writer
from nnet3.training.rnnlm.sampling_lm import SamplingLm
from nnet3.training.rnnlm.sampling_lm_arpa import from_arpa, probability
from nnet3.training.rnnlm.sampling_lm_estimate import estimate_sampling_lm
from nnet3.training.rnnlm.sentences import parse_sentences
from tests.rescoring_data import needs_rescoring
from tests.rnnlm.golden_texts import SAMPLED

TEXT = b"1 3 4 5\n0.5 3 4\n1 5 3 4 5 3\n" * 4


def _written(lm: SamplingLm, *, binary: bool) -> bytes:
    writer = Writer.of_file(binary)
    lm.write(writer)
    return writer.getvalue()


def _model() -> SamplingLm:
    options = SamplingLmOptions(unigram_factor=1.2, backoff_factor=1.1, bos_factor=1.0)
    return estimate_sampling_lm(parse_sentences(TEXT, "text"), 7, 1, 2, options)


@needs_rescoring
@pytest.mark.parametrize("case", SAMPLED, ids=lambda case: case.name)
@pytest.mark.parametrize(("name", "binary"), [("sampling.lm", True), ("sampling.txt.lm", False)])
def test_kaldis_files_are_written_as_they_are_read(case: Path, name: str, binary: bool) -> None:
    lm = Reader.open(case / name).whole(SamplingLm.read)
    assert _written(lm, binary=binary) == (case / name).read_bytes()


def test_histories_may_have_no_words() -> None:
    labels = {"<s>": 1, "</s>": 2, "a": 3}
    ngrams = {("</s>",): -0.5, ("a",): -0.2, ("a", "a"): -0.1}
    lm = from_arpa(ngrams, {("a",): -0.5, ("<s>",): -0.3}, labels, "lm.arpa")
    assert np.diff(lm.states[0].offsets).tolist() == [1, 0]
    again = Reader(_written(lm, binary=True), "lm").whole(SamplingLm.read)
    assert _written(again, binary=True) == _written(lm, binary=True)


def test_truncated_files_are_refused() -> None:
    data = _written(_model(), binary=True)
    for end in range(0, len(data) - 1, 5):
        with pytest.raises(ModelFormatError):
            Reader(data[:end], "lm").whole(SamplingLm.read)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<Order> 3", "<Order> 0", "cannot have order 0"),
        ("<VocabSize> 7", "<VocabSize> 8", "and 8 words"),
        ("<StatesOfOrder> 2", "<StatesOfOrder> 3", "the states of order 2 are damaged"),
        ("[ 3 ]", "[ 7 ]", "the states of order 2 are damaged"),
        ("[ 3 ]", "[ 3 4 ]", "expected histories of 1 words, got one of 2"),
        ("[ 3 ]", "[ 4 ]", "the states of order 2 are damaged"),
    ],
)
def test_what_cannot_be_is_refused(old: str, new: str, message: str) -> None:
    text = _written(_model(), binary=False).decode()
    assert old in text
    with pytest.raises(ModelFormatError, match=message):
        Reader(text.replace(old, new, 1).encode(), "lm").whole(SamplingLm.read)


def test_histories_are_found_by_their_ends() -> None:
    lm = _model()
    assert lm.find(()) is None
    assert lm.find((6,)) is None
    length, number = lm.find((6, 6, 3)) or (0, 0)
    assert (length, lm.states[0].histories[number].tolist()) == (1, [3])
    assert np.isclose(sum(probability(lm, (6, 6, 3), word) for word in range(7)), 1)
