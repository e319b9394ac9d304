"""Training runs against those of Kaldi: what is logged for each minibatch, and how far each parameter has moved."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import nnet3
from nnet3.train import Trainer, TrainerOptions
from tests.device import DEVICE
from tests.shared_data import golden_cases, needs_shared
from tests.train.examples_of import read_minibatches
from tests.train.golden_runs import check_change, compare_lines

SEEDS = (1, 2, 3)
RUNS = {
    "plain": {"max_param_change": 2.0},
    "momentum": {"momentum": 0.5, "max_param_change": 0.3, "l2_regularize_factor": 0.5},
    "backstitch": {"backstitch_training_scale": 0.3, "backstitch_training_interval": 1},
    "trained": {},
}
TOLERANCE = {"train": 2e-3, "xvector": 5e-2}
LOOSE = {"lstm": "tdnn1"}  # where a random self-repair feeds back
LOOSE_TOLERANCE = 2e-2

_CASES = [(path, run) for run in RUNS if run != "trained" for path in golden_cases("train", f"{run}.raw")]
_CASES += [(path, "trained") for path in golden_cases("xvector", "trained.raw")]
_LOGGED = re.compile(r"^LOG \(nnet3-train\[5.5\]:(?:Print|Update)\w*\(\):\S+\) (.*)$", re.MULTILINE)


def _ids(value: object) -> str:
    return value.name if isinstance(value, Path) else str(value)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("path", "run"), _CASES, ids=_ids)
def test_golden_runs_are_trained_again(path: Path, run: str, seed: int) -> None:
    nnet = nnet3.load(path / "start.raw").to(device=DEVICE)
    start, expected = nnet.copy(), nnet3.load(path / f"{run}.raw").to(device=DEVICE)
    lines: list[str] = []
    options = TrainerOptions(print_interval=1, seed=seed, **RUNS[run])  # type: ignore[arg-type]
    trainer = Trainer(nnet, options, say=lines.append)
    for minibatch in read_minibatches(path / "merged.ark", nnet):
        assert trainer.train_minibatch(minibatch).skipped is None
    trainer.log.finish()
    log = path / ("train.log" if run == "trained" else f"train_{run}.log")
    compare_lines(lines, _LOGGED.findall(log.read_text()))
    compared = 0
    for name, component in nnet.components.items():
        for key, tensor in component.parameters().items():
            before, target = (net.components[name].parameters()[key] for net in (start, expected))
            loose = name.startswith(LOOSE.get(path.name, "-"))
            tolerance = LOOSE_TOLERANCE if loose else TOLERANCE[path.parent.name]
            check_change(f"{name} {key}", before, tensor, target, tolerance)
            compared += 1
    assert compared > 4


@needs_shared
def test_every_golden_run_is_compared() -> None:
    runs = {file.stem for path in golden_cases("train") for file in path.glob("*.raw")} - {"start"}
    assert runs == RUNS.keys() - {"trained"}


def test_the_comparison_can_fail() -> None:
    before = torch.zeros(3)
    with pytest.raises(AssertionError, match="differs by"):
        check_change("x", before, torch.tensor([1.0, 0.0, 0.0]), torch.tensor([1.0, 0.01, 0.0]), 2e-3)
    with pytest.raises(AssertionError):
        compare_lines(["is -2.3 over"] * 5, ["is -2.4 over"] * 5)


FROZEN = {
    "bottom": ("tdnn1.affine",),
    "middle": ("lstm1.W_all", "lstm1.lstm_nonlin", "lstm1.W_rp"),
    "all": ("tdnn1.affine", "lstm1.W_all", "lstm1.lstm_nonlin", "lstm1.W_rp", "output.affine"),
}


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_layers_have_derivatives_where_kaldi_has_them(name: str) -> None:
    """Which statistics the backward pass leaves says where it went: which rows were counted, not their values."""
    path = next(path for path in golden_cases("train") if path.name == "lstm")
    nnet = nnet3.load(path / "start.raw")
    for each in FROZEN[name]:
        nnet.components[each].updatable.learning_rate_factor = 0.0  # type: ignore[union-attr]
    nnet.set_learning_rate(0.01)
    assert nnet.frozen == set(FROZEN[name])
    start, expected = nnet.copy(), nnet3.load(Path(__file__).parent / "golden" / f"{name}.raw")
    trainer = Trainer(nnet, TrainerOptions(max_param_change=2.0, seed=1))
    for minibatch in read_minibatches(path / "merged.ark", nnet):
        assert trainer.train_minibatch(minibatch).skipped is None
    for each, component in nnet.components.items():
        others = [network.components[each] for network in (start, expected)]
        for key, tensor in component.parameters().items():
            before, target = (other.parameters()[key] for other in others)
            check_change(f"{each} {key}", before, tensor, target, LOOSE_TOLERANCE)
            assert torch.equal(before, tensor) == (each in FROZEN[name])
        for key in {"count", "oderiv_count"}.intersection(component.statistic_names):
            count, target_count = getattr(component, key), getattr(others[1], key)
            assert count == target_count or (key == "count" and each == "tdnn1.relu"), "that one is drawn"
