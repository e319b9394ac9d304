"""discriminative-train: options of the trainer that act, and those that do not; dropout; deriv-weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import nnet3
from nnet3 import load_nnet
from tests.cli.run_command import Cli
from tests.discriminative.golden_discriminative import GOLDEN, needs_golden

pytestmark = needs_golden
CASE = GOLDEN / "mmi_drop"


def _trained(cli: Cli, *options: str, model: Path = CASE / "start.mdl") -> torch.Tensor:
    cli.good("discriminative-train", *options, model, f"ark:{CASE}/merged.ark", "trained.raw")
    return torch.cat(load_nnet("trained.raw").flat_parameters())


def test_options_of_newer_trainers_have_no_effect(cli: Cli) -> None:
    plain = _trained(cli)
    others = (
        "--l2-regularize-factor=9",
        "--batchnorm-stats-scale=0.1",
        "--backstitch-training-scale=0.3",
        "--backstitch-training-interval=1",
        "--accumulate-output=true",
        "--num-pdfs=3",
    )
    assert torch.equal(plain, _trained(cli, *others))
    for acting in ("--max-param-change=0.01", "--momentum=0.5", "--apply-deriv-weights=false", "--criterion=mpfe"):
        assert not torch.equal(plain, _trained(cli, acting))


def test_limits_and_penalties_of_components_have_no_effect(cli: Cli) -> None:
    plain = _trained(cli)
    model = nnet3.load(CASE / "start.mdl")
    assert isinstance(model, nnet3.AcousticModel)
    for component in model.nnet.components.values():
        if component.updatable is not None:
            component.updatable.max_change, component.updatable.l2_regularize = 1e-5, 10.0
    model.save("limited.mdl")
    assert torch.equal(plain, _trained(cli, model=Path("limited.mdl")))


@pytest.mark.parametrize("batchnorm", ["true", "false"])
def test_objective_in_both_modes_of_batchnorm(cli: Cli, batchnorm: str) -> None:
    model, egs = CASE / "start.mdl", f"ark:{CASE}/merged.ark"
    said = cli.good("discriminative-compute-objf", f"--batchnorm-test-mode={batchnorm}", model, egs).err
    other = cli.good("discriminative-compute-objf", model, egs).err
    assert "Overall smbr objective for 'output' is" in said
    assert (said == other) == (batchnorm == "true")
