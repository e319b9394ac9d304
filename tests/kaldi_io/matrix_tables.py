"""Tables of matrices that tests write and compare."""

from __future__ import annotations

import numpy as np

from nnet3.kaldi_io import matrix_writer
from tests.seeds import RANDOM

MATRICES = {f"utt{k}": RANDOM.normal(size=(k + 1, 5)).astype(np.float32) for k in (3, 1, 2)}


def write_matrices(wspecifier: str, matrices: dict[str, np.ndarray]) -> None:
    with matrix_writer(wspecifier) as writer:
        for key, matrix in matrices.items():
            writer.write(key, matrix)


def same(table: object, matrices: dict[str, np.ndarray]) -> bool:
    found = list(table)  # type: ignore[call-overload]
    return [key for key, _ in found] == list(matrices) and all(np.array_equal(m, matrices[key]) for key, m in found)
