"""RNNLM examples: Kaldi's files byte for byte, and damaged ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ModelFormatError, TableError
from nnet3.kaldi_io import Reader, Writer
from nnet3.training.rnnlm.example import RNNLM_EXAMPLES, RnnlmExample, fault_of, read_example, write_example
from tests.rescoring_data import RNNLM_CASES, needs_rescoring
from tests.rnnlm.small_minibatches import minibatch


def _bytes(example: RnnlmExample, *, binary: bool) -> bytes:
    writer = Writer(binary)
    write_example(writer, example)
    return writer.getvalue()


@needs_rescoring
@pytest.mark.parametrize("case", RNNLM_CASES, ids=lambda case: case.name)
def test_kaldis_tables_are_written_as_they_are_read(case: Path, tmp_path: Path) -> None:
    for name in ("egs.ark", "dev_egs.ark"):
        written = tmp_path / name
        with RNNLM_EXAMPLES.open(f"ark:{case / name}") as table, RNNLM_EXAMPLES.writer(f"ark:{written}") as writer:
            for key, example in table:
                writer.write(key, example)
        assert written.read_bytes() == (case / name).read_bytes()


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("sampled", [True, False])
def test_examples_come_back(binary: bool, sampled: bool) -> None:
    example = minibatch(np.random.default_rng(1), sampled=sampled)
    data = _bytes(example, binary=binary)
    again = read_example(Reader(data, "egs", binary=binary))
    assert _bytes(again, binary=binary) == data
    assert again.num_groups == (2 if sampled else 1)
    assert again.indexes[:4].tolist() == [[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]]


def test_truncated_examples_are_refused() -> None:
    data = _bytes(minibatch(np.random.default_rng(1), sampled=True), binary=True)
    for end in range(0, len(data), 7):
        with pytest.raises(ModelFormatError):
            read_example(Reader(data[:end], "egs", binary=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_chunks": 2}, "expected 8 input words, got 12"),
        ({"chunk_length": -1}, "its sizes are"),
        ({"sample_group_size": 3}, "4 times are no whole number of groups of 3"),
        ({"vocab_size": 3}, "an input word is not within 0 and 2"),
        ({"num_samples": 6}, "expected 12 sampled words, got 14"),
        ({"output_weights": np.full(12, np.nan, np.float32)}, "a weight or probability"),
        ({"output_words": np.full(12, 7, np.int32)}, "an output word is not within 0 and 6"),
    ],
)
def test_what_does_not_fit_is_said(changes: dict[str, object], message: str) -> None:
    example = minibatch(np.random.default_rng(1), sampled=True)
    assert fault_of(example) == ""
    wrong = replace(example, **changes)
    assert message in fault_of(wrong)
    with pytest.raises(ModelFormatError, match="cannot be"):
        read_example(Reader(_bytes(wrong, binary=True), "egs", binary=True))


def test_tables_of_other_things_are_refused(tmp_path: Path) -> None:
    (tmp_path / "egs.ark").write_bytes(b"key \0B<Nnet3Eg> ")
    with pytest.raises(TableError, match="<RnnlmExample>"):
        list(RNNLM_EXAMPLES.open(f"ark:{tmp_path / 'egs.ark'}"))
