"""Examples for x-vectors: Kaldi's bytes, and the rules one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.general import dense
from nnet3.errors import TrainingError
from nnet3.examples import EXAMPLES, Example, example_writer
from nnet3.kaldi_io import CompressedMatrix, open_matrix_table
from nnet3.options import XvectorMakingOptions
from nnet3.training.examples.xvector_making import XvectorStatistics, make_xvector_examples, read_ranges
from tests.shared_data import golden_cases, needs_shared

FEATURES = {key: np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32) for key in ("a", "b", "c")}
PLAIN = XvectorMakingOptions(compress=False)


def _made(lines: str, options: XvectorMakingOptions = PLAIN) -> tuple[dict[str, tuple[int, Example]], str]:
    """The examples by key, with the number of their table, and the statistics."""
    statistics = XvectorStatistics()
    stretches = read_ranges(lines, "ranges", 2)
    made = make_xvector_examples(FEATURES.items(), stretches, options, statistics)
    return {key: (table, example) for table, key, example in made}, str(statistics)


def test_the_number_among_all_tables_is_not_looked_at() -> None:
    """As in Kaldi: it is of the archive in the whole set."""
    assert read_ranges("a 0 x.13 5 3 1\n", "ranges", 1) == read_ranges("a 0 0 5 3 1\n", "ranges", 1)


@needs_shared
def test_the_examples_are_those_of_kaldi(tmp_path: Path) -> None:
    folders = golden_cases("xvector")
    assert len(folders) == 2
    for folder in folders:
        stretches = read_ranges((folder / "ranges").read_text(), "ranges", 1)
        options = XvectorMakingOptions(num_pdfs=5, compress=False)
        with (
            open_matrix_table(f"ark:{folder}/feats.ark") as features,
            example_writer(f"ark:{tmp_path}/egs.ark", EXAMPLES) as writer,
        ):
            for _, key, example in make_xvector_examples(features, stretches, options, XvectorStatistics()):
                writer.write(key, example)
        assert (tmp_path / "egs.ark").read_bytes() == (folder / "egs.ark").read_bytes()


def test_stretches_become_examples_of_their_class() -> None:
    made, said = _made("b 1 7 3 10 2\nb 0 7 15 10 0\nb 0 7 0 21 1\na 0 7 0 20 1\n")
    assert list(made) == ["a-0-20-1", "b-3-10-2", "b-15-10-0"]
    assert said == "3 examples of 3 utterances; 1 utterances without ranges, 1 ranges longer than their utterance"
    assert [table for table, _ in made.values()] == [0, 1, 0]
    for key, first, length, label in (("b-3-10-2", 3, 10, 2), ("b-15-10-0", 10, 10, 0)):
        given, wanted = made[key][1].ios
        assert (given.name, wanted.name) == ("input", "output")
        assert given.indexes.tolist() == [[0, t, 0] for t in range(length)]
        np.testing.assert_array_equal(dense(given.matrix), FEATURES["b"][first : first + length])
        assert wanted.indexes.tolist() == [[0, 0, 0]]
        np.testing.assert_array_equal(dense(wanted.matrix), np.eye(3)[label : label + 1])


def test_the_number_of_classes_and_compression() -> None:
    made, _ = _made("a 0 0 0 5 2\n", XvectorMakingOptions(num_pdfs=7))
    given, wanted = made["a-0-5-2"][1].ios
    assert isinstance(given.matrix, CompressedMatrix)
    assert wanted.matrix.shape == (1, 7)
    with pytest.raises(TrainingError, match="the ranges have a label 2, but num_pdfs=2"):
        _made("a 0 0 0 5 2\n", XvectorMakingOptions(num_pdfs=2))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a 0 0 0 5", "expected an utterance, a table, anything, and three"),
        ("a 0 0 0 5 1 1", "got 'a 0 0 0 5 1 1'"),
        ("a 0 0 x 5 1", "expected an utterance, a table, anything, and three"),
        ("", "expected an utterance"),
        ("a 0 0 -1 5 1", "start and label must be at least 0"),
        ("a 0 0 0 0 1", "the length at least 1"),
        ("a 0 0 0 5 -1", "start and label must be at least 0"),
        ("a 2 0 0 5 1", "there is no output table 2, there are 0 to 1"),
        ("a -1 0 0 5 1", "there is no output table -1"),
    ],
)
def test_a_line_that_is_none_is_named(line: str, message: str) -> None:
    with pytest.raises(TrainingError, match="ranges, line 2: ") as error:
        read_ranges(f"a 0 0 0 5 1\n{line}\n", "ranges", 2)
    assert message in str(error.value)
