"""Whole utterances against Kaldi's nnet3-compute."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.decode import UtteranceComputer, UtteranceOptions
from nnet3.kaldi_io import open_matrix_table
from tests.device import DEVICE
from tests.shared_data import golden_cases

TOLERANCE = 1e-4


def _read(path: Path) -> dict[str, np.ndarray]:
    with open_matrix_table(f"ark:{path}") as table:
        return {key: np.asarray(matrix) for key, matrix in table}


def _options(path: Path) -> UtteranceOptions:
    """What the command line of a case says."""
    given = dict(word.removeprefix("--").split("=", 1) for word in shlex.split(path.read_text())[1:])
    given.pop("online-ivectors")
    return UtteranceOptions(**{key.replace("-", "_"): int(value) for key, value in given.items()})


@pytest.mark.parametrize("folder", golden_cases("decode"), ids=lambda path: path.name)
def test_golden_utterances_are_computed_again(folder: Path) -> None:
    nnet = nnet3.load(folder / "model.raw").to(device=DEVICE)
    computer = UtteranceComputer(nnet, _options(folder / "compute.cmd"), DEVICE)
    features, ivectors = _read(folder / "feats.ark"), _read(folder / "ivectors.ark")
    expected = _read(folder / "compute.ark")
    assert expected.keys() == features.keys()
    for key, matrix in expected.items():
        rows = computer.compute(features[key], online_ivectors=ivectors[key]).cpu().numpy()
        assert rows.shape == matrix.shape
        assert np.linalg.norm(rows - matrix) <= TOLERANCE * np.linalg.norm(matrix), key


@pytest.mark.parametrize("folder", golden_cases("decode"), ids=lambda path: path.name)
def test_golden_utterances_with_products_of_few_bits(folder: Path) -> None:
    """Of untrained networks, whose rounding in float32 is amplified 50 times (4.5e-6 of 6e-8): so is this."""
    nnet = nnet3.load(folder / "model.raw")
    features, ivectors = _read(folder / "feats.ark"), _read(folder / "ivectors.ark")
    options = _options(folder / "compute.cmd")
    for name, bound in (("bfloat16", 50 * 2.0**-8), ("int8", 50 / 254)):
        computer = UtteranceComputer(nnet.quantize(name), options)
        for key, matrix in list(_read(folder / "compute.ark").items())[:1]:
            rows = computer.compute(features[key], online_ivectors=ivectors[key]).numpy()
            assert np.linalg.norm(rows - matrix) <= bound * np.linalg.norm(matrix), (key, name)
