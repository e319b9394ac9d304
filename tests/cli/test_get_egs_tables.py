"""Examples of whole matrices, and images changed at random, against Kaldi's files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.general import dense
from nnet3.examples import EXAMPLES, ExampleReader
from nnet3.kaldi_io import SparseMatrix, matrix_writer
from tests.cli.run_command import Cli
from tests.small_programs import BOUND, largest_difference, needs_small_programs, run_case


@needs_small_programs
def test_images_are_kaldis(cli: Cli) -> None:
    case = run_case("image", "image.cmd", "images.ark", "labels.ark")
    assert Path("egs.ark").read_bytes() == case.golden("egs.ark").read_bytes()
    for name in ("flip", "shift_nearest", "shift_reflect", "rotate"):
        with (
            ExampleReader(f"ark:{name}.ark", EXAMPLES) as ours,
            ExampleReader(f"ark:{case.golden(f'{name}.ark')}", EXAMPLES) as theirs,
        ):
            for (key, mine), (their_key, example) in zip(ours, theirs, strict=True):
                assert key == their_key
                for io, expected in zip(mine.ios, example.ios, strict=True):
                    assert (io.name, io.indexes.tolist()) == (expected.name, expected.indexes.tolist())
                    assert type(io.matrix) is type(expected.matrix)
                    assert largest_difference(dense(io.matrix), dense(expected.matrix)) <= BOUND
    case.check_all_compared()


def test_matrices_are_stored_as_they_are(cli: Cli) -> None:
    sparse = SparseMatrix(2, 4, np.array([0, 1, 2]), np.array([3, 0], np.int32), np.ones(2, np.float32))
    with matrix_writer("ark:a.ark") as first, matrix_writer("ark:b.ark") as second:
        for key in ("x", "y", "z"):
            first.write(key, np.ones((3, 2), np.float32))
        second.write("x", sparse)
        second.write("z", sparse)
    err = cli.good("get-egs-simple", "in=ark:a.ark", "out=ark:b.ark", "ark:egs.ark").err
    assert "warning: 'y' left out: the table of 'out' has no such key" in err
    with ExampleReader("ark:egs.ark", EXAMPLES) as table:
        examples = dict(table)
    assert list(examples) == ["x", "z"]
    inputs, output = examples["x"].ios
    assert (inputs.name, inputs.indexes.tolist()) == ("in", [[0, 0, 0], [0, 1, 0], [0, 2, 0]])
    assert isinstance(output.matrix, SparseMatrix)
    assert cli("get-egs-simple", "in=ark:a.ark", "out=ark:none.ark", "ark:egs.ark").status == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("get-egs-simple", "input", "ark:out"), "'input': expected NAME=RSPECIFIER"),
        (("get-egs-simple", "input=ark:feats.ark"), "Missing argument"),
        (("egs-augment-image", "--fill-mode=black", "ark:a", "ark:b"), "nearest, reflect"),
        (("egs-augment-image", "--rotation-degree=200", "ark:a", "ark:b"), "180"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    outcome = cli(*arguments)
    assert (outcome.status, message in outcome.err) == (2, True), outcome.err
