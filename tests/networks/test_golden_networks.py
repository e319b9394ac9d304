"""Whole networks against Kaldi: outputs, input derivatives, gradients and updates, with and without the passes."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnet3
from tests.device import DEVICE
from tests.networks.golden_network import BOUNDS, check_gradient, check_run, check_update, run_case
from tests.shared_data import golden_cases

CASES = golden_cases("random") + golden_cases("recipe")
PLAIN = nnet3.CompileOptions(optimize=False, check=True)
OPTIMIZED = nnet3.CompileOptions(check=True)


def _identify(folder: Path) -> str:
    return f"{folder.parent.name}-{folder.name}"


def _load(folder: Path, name: str = "model.raw") -> nnet3.Nnet:
    return nnet3.load(folder / name).to(device=DEVICE)


@pytest.mark.parametrize("options", [OPTIMIZED, PLAIN], ids=["optimized", "plain"])
@pytest.mark.parametrize("folder", CASES, ids=_identify)
def test_outputs_derivatives_and_gradients(folder: Path, options: nnet3.CompileOptions) -> None:
    nnet = _load(folder)
    bounds = BOUNDS[folder.parent.name]
    gradient = nnet.gradient_copy()
    run = run_case(folder, nnet, gradient, options)
    check_run(folder, run, bounds)
    check_gradient(gradient, _load(folder, "gradient.raw"), bounds)


@pytest.mark.parametrize("options", [OPTIMIZED, PLAIN], ids=["optimized", "plain"])
@pytest.mark.parametrize("folder", CASES, ids=_identify)
def test_updates_are_those_of_kaldi(folder: Path, options: nnet3.CompileOptions) -> None:
    nnet = _load(folder)
    updated = nnet.copy()
    updated.set_learning_rate(0.1)
    run_case(folder, nnet, updated, options)
    compared = check_update(nnet, updated, _load(folder, "updated.raw"), BOUNDS[folder.parent.name])
    assert compared == sum(len(component.parameters()) for component in nnet.components.values())
