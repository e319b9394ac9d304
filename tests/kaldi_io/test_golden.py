"""Kaldi's own files: each matrix and vector of its text files is read and written again as it stood there."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.kaldi_io import Reader, Writer, load_matrix
from tests.shared_data import GOLDEN, IS_WHOLE, needs_shared

PATTERNS = ("component/*-0/component.txt", "random/*/model.txt", "mdl/*/final.txt.mdl")


def rewritten(reader: Reader) -> tuple[str, str]:
    """The vector or matrix at the reader's position: as it stands there, and as the Writer has it."""
    start = reader.position
    writer = Writer(False)
    if b"\n" in reader.data[start : reader.data.find(b"]", start)].lstrip():
        writer.matrix(reader.matrix())
    else:
        writer.vector(reader.vector())
    return bytes(reader.data[start : reader.position]).decode().lstrip(), writer.getvalue().decode().lstrip()


@pytest.mark.parametrize("pattern", [pattern for pattern in PATTERNS if IS_WHOLE or [*GOLDEN.glob(pattern)]])
def test_text_is_written_as_kaldi_does(pattern: str) -> None:
    count = 0
    for path in sorted(GOLDEN.glob(pattern)):
        reader = Reader.open(path)
        while not reader.at_end():
            if reader.peek_token() not in ("[", "[]"):
                reader.token()
                continue
            before, after = rewritten(reader)
            count += 1
            if before == after:
                continue
            # Kaldi's seven digits are now and then one more than needed
            assert len(before.split(" ")) == len(after.split(" "))
            for old, new in zip(before.split(" "), after.split(" "), strict=True):
                assert old == new or (len(new) < len(old) and np.float32(new) == np.float32(old))
    assert count > 3


@needs_shared
def test_transforms_of_golden_cases_are_read() -> None:
    paths = sorted(GOLDEN.glob("*/*/*.mat"))
    assert paths
    for path in paths:
        matrix = load_matrix(path)
        assert matrix.ndim == 2
        assert np.isfinite(matrix).all()
        assert matrix.any()


def test_models_hold_matrices_where_expected() -> None:
    """A component in binary and in text has the same matrices up to the seven digits of the text."""
    folder = GOLDEN / "component" / "AffineComponent-0"
    matrices = []
    for name in ("component.txt", "component.bin"):
        reader = Reader.open(folder / name)
        reader.expect("<AffineComponent>")
        while not reader.accept("<LinearParams>"):
            reader.expect("<LearningRateFactor>", "<MaxChange>", "<L2Regularize>", "<LearningRate>")
            reader.real()
        matrices.append(reader.matrix())
        reader.expect("<BiasParams>")
        reader.vector()
        if reader.accept("<IsGradient>"):
            reader.boolean()
        reader.expect("</AffineComponent>")
        reader.finish()
    np.testing.assert_allclose(matrices[0], matrices[1], rtol=1e-6)
