"""Whole networks against Kaldi: outputs, input derivatives, gradients and updates, with and without the passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import nnet3
from nnet3.engine.ir.computation import NnetComputation
from tests.device import DEVICE
from tests.effort import EFFORT
from tests.networks.golden_network import BOUNDS, check_gradient, check_run, check_update, read_request, run_program
from tests.shared_data import golden_cases

CASES = golden_cases("random") + golden_cases("recipe")
PLAIN = nnet3.CompileOptions(optimize=False, check=True)
OPTIMIZED = nnet3.CompileOptions(check=True)
#: By day the plain programs of one network in five: each program is proved to compute what its plain one does.
WAYS = [(folder, OPTIMIZED) for folder in CASES] + [(folder, PLAIN) for folder in CASES[:: 5 if EFFORT == 1 else 1]]


def _identify(folder: Path) -> str:
    return f"{folder.parent.name}-{folder.name}"


def _in_all_ways(test: Callable[..., None]) -> Callable[..., None]:
    ids = [f"{_identify(folder)}-{'optimized' if options is OPTIMIZED else 'plain'}" for folder, options in WAYS]
    return pytest.mark.parametrize(("folder", "options"), WAYS, ids=ids)(test)


def _load(folder: Path, name: str = "model.raw") -> nnet3.Nnet:
    return nnet3.load(folder / name).to(device=DEVICE)


@cache
def _network(folder: Path) -> nnet3.Nnet:
    """The network of a case: what runs changes copies."""
    return _load(folder)


@cache
def _program(folder: Path, is_optimized: bool) -> NnetComputation:
    """The program of a case, with its plan, which both tests run."""
    program = nnet3.compile(_network(folder), read_request(folder), OPTIMIZED if is_optimized else PLAIN)
    program.attachments = {}
    return program


@_in_all_ways
def test_outputs_derivatives_and_gradients(folder: Path, options: nnet3.CompileOptions) -> None:
    nnet = _network(folder)
    bounds = BOUNDS[folder.parent.name]
    gradient = nnet.gradient_copy()
    run = run_program(folder, nnet, gradient, _program(folder, options is OPTIMIZED))
    check_run(folder, run, bounds)
    check_gradient(gradient, _load(folder, "gradient.raw"), bounds)


@_in_all_ways
def test_updates_are_those_of_kaldi(folder: Path, options: nnet3.CompileOptions) -> None:
    nnet = _network(folder)
    updated = nnet.copy()
    updated.set_learning_rate(0.1)
    run_program(folder, nnet, updated, _program(folder, options is OPTIMIZED))
    compared = check_update(nnet, updated, _load(folder, "updated.raw"), BOUNDS[folder.parent.name])
    assert compared == sum(len(component.parameters()) for component in nnet.components.values())
