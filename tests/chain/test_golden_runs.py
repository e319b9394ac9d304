"""Sequence training against runs of Kaldi: what is logged for each minibatch, and how far each parameter has moved."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nnet3
from nnet3.chain import CHAIN_EXAMPLES, ChainObjective, ChainOptions, Denominator, chain_minibatch
from nnet3.examples import ExampleReader
from nnet3.train import Trainer, TrainerOptions
from tests.chain.chain_data import golden_graph
from tests.device import DEVICE
from tests.shared_data import golden_cases
from tests.train.golden_runs import check_change, compare_lines

RUNS = ("plain", "full", "backstitch")
SEEDS = (1, 7)
_LOGGED = re.compile(r"^LOG \(nnet3-chain-train\[5.5\]:(?:Print|Update)\w*\(\):\S+\) (.*)$", re.MULTILINE)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("path", golden_cases("chain", "start.raw"), ids=lambda path: path.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_golden_runs_are_trained_again(path: Path, run: str, seed: int) -> None:
    given = dict(re.findall(r"--([\w-]+)=(\S+)", (path / f"train_{run}.cmd").read_text()))
    number = {name.replace("-", "_"): float(text) for name, text in given.items() if text not in ("true", "false")}
    objective = ChainObjective(
        Denominator(golden_graph(path), number["leaky_hmm_coefficient"]),
        ChainOptions(
            l2_regularize=number.get("l2_regularize", 0.0), xent_regularize=number.get("xent_regularize", 0.0)
        ),
        apply_deriv_weights=given.get("apply-deriv-weights", "true") == "true",
    )
    trained = ("momentum", "max_param_change", "l2_regularize_factor", "backstitch_training_scale")
    settings = {name: number[name] for name in trained if name in number}
    nnet = nnet3.load(path / "start.raw").to(device=DEVICE)
    start, expected = nnet.copy(), nnet3.load(path / f"{run}.raw").to(device=DEVICE)
    lines: list[str] = []
    options = TrainerOptions(print_interval=1, seed=seed, **settings)  # type: ignore[arg-type]
    trainer = Trainer(nnet, options, objective, say=lines.append)
    for key, example in ExampleReader(f"ark:{path}/merged.ark", CHAIN_EXAMPLES):
        assert trainer.train_minibatch(chain_minibatch(example, nnet.input_dims, key)).skipped is None
    trainer.log.finish()
    wanted = _LOGGED.findall((path / f"train_{run}.log").read_text())  # without lines about max-change
    compare_lines(sorted(line for line in lines if "max-change" not in line), sorted(wanted))
    compared = 0
    for name, component in nnet.components.items():
        for key, tensor in component.parameters().items():
            before, target = (net.components[name].parameters()[key] for net in (start, expected))
            check_change(f"{name} {key}", before, tensor, target, 2e-3)
            compared += 1
    assert compared > 4
