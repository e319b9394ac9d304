"""Networks of one component, and golden components as Kaldi ran them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnet3
from tests.export.exported import Exported
from tests.shared_data import golden_cases
from tools.onnx_page import network_of


def golden_components() -> pytest.MarkDecorator:
    """Parametrizes a test by the first golden case of each type; batch-norm was in training mode there."""
    cases = golden_cases("component", "component.bin", "arrays.npz")
    chosen = [case for case in cases if case.name.endswith("-0") and case.name != "BatchNormComponent-0"]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.name)


def check_golden(case: Path, folder: Path) -> None:
    """Assert that a file gives what Kaldi gave for a component."""
    arrays = np.load(case / "arrays.npz")
    network = network_of(nnet3.components.read(case / "component.bin"))
    exported = Exported(network, folder, frames_per_chunk=len(arrays["input"]))
    found, expected = exported.run(arrays["input"][np.newaxis])["output"][0], arrays["output"]
    assert np.linalg.norm(found - expected) <= 1e-5 * max(float(np.linalg.norm(expected)), 1e-3)
