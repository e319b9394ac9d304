"""The slow oracle of streams reproduces Kaldi's looped computation."""

from __future__ import annotations

import numpy as np
import pytest

import nnet3
from nnet3.kaldi_io import open_matrix_table
from tests.inference.slow_stream import SlowStream
from tests.shared_data import GOLDEN, needs_shared

PERIOD = 10  # frames for each online ivector


@needs_shared
@pytest.mark.parametrize(("case", "frames"), [("180", 37), ("223", 120), ("302", 120)])
def test_utterances_of_kaldi_are_computed_again(case: str, frames: int) -> None:
    tables = []
    for name in ("feats", "ivectors", "looped"):
        with open_matrix_table(f"ark:{GOLDEN}/decode/{case}/{name}.ark") as table:
            tables.append(dict(table))
    features, ivectors, expected = tables
    key = next(key for key, matrix in features.items() if len(matrix) == frames)
    stream = SlowStream(nnet3.load_nnet(GOLDEN / "decode" / case / "model.raw"), 21, 3)
    rows = stream.utterance(features[key], lambda frame: ivectors[key][min(frame // PERIOD, len(ivectors[key]) - 1)])
    assert rows.shape == expected[key].shape
    assert np.linalg.norm(rows - expected[key]) <= 1e-5 * np.linalg.norm(expected[key])
