"""Streams against Kaldi's looped computation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.kaldi_io import open_matrix_table
from tests.device import DEVICE
from tests.shared_data import golden_cases

TOLERANCE = 1e-4
PERIOD = 10


def _read(path: Path) -> dict[str, np.ndarray]:
    with open_matrix_table(f"ark:{path}") as table:
        return {key: np.asarray(matrix) for key, matrix in table}


@pytest.mark.parametrize("folder", golden_cases("decode"), ids=lambda path: path.name)
def test_golden_streams_are_computed_again(folder: Path) -> None:
    streams = nnet3.StreamComputer(nnet3.load(folder / "model.raw").to(device=DEVICE), frame_subsampling_factor=3)
    features, ivectors, expected = (_read(folder / f"{name}.ark") for name in ("feats", "ivectors", "looped"))
    for key, matrix in expected.items():
        rows = streams.compute(features[key], online_ivectors=ivectors[key], online_ivector_period=PERIOD).cpu().numpy()
        assert rows.shape == matrix.shape
        assert np.linalg.norm(rows - matrix) <= TOLERANCE * np.linalg.norm(matrix), key
