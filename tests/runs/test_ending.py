"""The end of a run: which networks are averaged and how, what file becomes of it, who writes it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import nnet3
from nnet3.base.options.run import PriorsSection
from nnet3.errors import Nnet3Error
from nnet3.model.hmm.topology import HmmTopology, TopologyEntry, TopologyState
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.training.runs import train_model as module
from nnet3.training.runs.interfaces import Placed, RunObjectives
from nnet3.training.runs.process_group import ProcessGroup
from nnet3.training.runs.snapshots import Snapshots
from nnet3.training.runs.train_model import finish_run
from nnet3.training.runs.training_run import Progress
from nnet3.training.train.minibatch import MatrixTarget, Minibatch, NetworkInput, grid
from nnet3.training.train.objectives import ObjectiveByNode

NNET = nnet3.Nnet.from_config(
    """
    input-node name=input dim=2
    component name=affine type=AffineComponent input-dim=2 output-dim=2
    component name=dropout type=DropoutComponent dim=2 dropout-proportion=0
    component-node name=affine component=affine input=input
    component-node name=dropout component=dropout input=affine
    output-node name=output input=dropout objective=quadratic
    """,
    seed=1,
)
LOG_SOFTMAX = """
input-node name=input dim=2
component name=affine type=AffineComponent input-dim=2 output-dim=2
component name=softmax type=LogSoftmaxComponent dim=2
component-node name=affine component=affine input=input
component-node name=softmax component=softmax input=affine
output-node name=output input=softmax
"""
STATES = TopologyEntry((TopologyState(0, 0, ((0, 0.5), (1, 0.5))), TopologyState()))
TRANSITIONS = TransitionModel(
    HmmTopology((STATES,), np.array([-1, 0, 0], np.int32)), [(1, 0, 0, 0), (2, 0, 1, 1)], [0.0, *np.log([0.5] * 4)]
)


class _Run:
    """What `finish_run` looks at of a run, whose last network is `NNET` and whose kept ones are multiples of it."""

    def __init__(
        self, folder: Path, factors: dict[int, float], *, rank: int = 0, priors: Any = None, test_mode: bool = False
    ):
        self.group, self.nnet = ProcessGroup(rank, rank + 1), NNET
        self.model = NNET if priors is None else nnet3.AcousticModel(TRANSITIONS, NNET, priors)
        self.snapshots = Snapshots(folder / "models", len(factors), 0.5)
        self.snapshots.prepare()
        for step, factor in factors.items():
            network = NNET.copy()
            network.scale_(factor)
            network.set_test_mode(test_mode)
            network.save(self.snapshots.path(step))
        self.progress = Progress(step=9, snapshots=[*factors])
        self.events: list[dict[str, Any]] = []
        self.reports = SimpleNamespace(event=lambda name, **values: self.events.append({"event": name, **values}))
        objective = ObjectiveByNode(NNET)
        self.objectives = RunObjectives(objective, objective, objective)
        self.settings = SimpleNamespace(
            combination=SimpleNamespace(max_objective_evaluations=5), output=SimpleNamespace(folder=str(folder))
        )
        self.held_out = [_minibatch()]
        self.source = SimpleNamespace(combination=lambda: iter(self.held_out))


def _minibatch(seed: int = 2) -> Minibatch:
    """`NNET` itself gives what is wanted here, so that an average is best when its factor is 1."""
    generator, indexes = torch.Generator().manual_seed(seed), grid(2, range(3))
    x = torch.randn(6, 2, generator=generator)
    parameters = NNET.components["affine"].parameters()
    wanted = x @ parameters["linear_params"].T + parameters["bias_params"]
    return Minibatch([NetworkInput("input", indexes, x)], [MatrixTarget("output", indexes, wanted)])


def _finish(run: _Run) -> None:
    finish_run(run)  # type: ignore[arg-type]


@pytest.mark.parametrize("test_mode", [False, True])
def test_the_best_average_of_the_newest_is_written_as_it_is_trained(tmp_path: Path, test_mode: bool) -> None:
    """What was kept in test mode while the rest was trained stays in it."""
    run = _Run(tmp_path, {3: 5.0, 7: 0.5, 9: 1.5}, test_mode=test_mode)
    _finish(run)
    final = nnet3.load_nnet(tmp_path / "final.raw")
    torch.testing.assert_close(final.flat_parameters()[0], NNET.flat_parameters()[0])
    assert final.components["dropout"].test_mode == test_mode
    *combine, last = run.events
    assert [(event["event"], event["step"]) for event in combine] == [("combine", 9)] * 4
    assert "last 2 models" in combine[-1]["message"]
    assert last == {"event": "final", "step": 9, "path": str(tmp_path / "final.raw")}


def test_the_settings_and_objectives_of_the_run_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def combine(models: Any, minibatches: Any, objective: Any, **options: Any) -> nnet3.Nnet:
        given.update(options, objective=objective(None), models=models)
        return NNET.copy()

    monkeypatch.setattr(module, "combine", combine)
    run = _Run(tmp_path, {3: 5.0, 9: 1.5})
    run.objectives = RunObjectives("train", "compare", "statistics")  # type: ignore[arg-type]
    _finish(run)
    assert (given["objective"], given["statistics_objective"](None)) == ("compare", "statistics")
    assert given["max_objective_evaluations"] == 5
    newest = given["models"][0]()
    torch.testing.assert_close(newest.flat_parameters()[0], 1.5 * NNET.flat_parameters()[0])


@pytest.mark.parametrize(("factors", "has_held_out"), [({}, True), ({3: 5.0, 9: 1.5}, False)])
def test_without_models_or_held_out_examples_the_network_is_written_as_it_is(
    tmp_path: Path, factors: dict[int, float], has_held_out: bool
) -> None:
    run = _Run(tmp_path, factors)
    run.held_out = run.held_out if has_held_out else []
    _finish(run)
    final = nnet3.load_nnet(tmp_path / "final.raw")
    assert torch.equal(final.flat_parameters()[0], NNET.flat_parameters()[0])
    assert [event["event"] for event in run.events] == ["final"]


@pytest.mark.parametrize("factors", [{}, {3: 0.5, 9: 1.5}])
def test_an_acoustic_model_keeps_its_transitions_and_priors(tmp_path: Path, factors: dict[int, float]) -> None:
    run = _Run(tmp_path, factors, priors=[0.25, 0.75])
    _finish(run)
    final = nnet3.load(tmp_path / "final.mdl")
    assert isinstance(final, nnet3.AcousticModel)
    assert final.priors.tolist() == [0.25, 0.75]
    assert final.transition_model.num_pdfs == 2
    torch.testing.assert_close(final.nnet.flat_parameters()[0], NNET.flat_parameters()[0])
    assert not (tmp_path / "final.raw").exists()


def _run_with_posteriors(folder: Path, *, adjust: bool = True, examples: int = 100) -> tuple[_Run, nnet3.Nnet]:
    """A run whose network gives log-posteriors, on four minibatches of two sequences."""
    run = _Run(folder, {}, priors=[0.25, 0.75])
    nnet = nnet3.Nnet.from_config(LOG_SOFTMAX, seed=3)
    run.nnet, run.model = nnet, nnet3.AcousticModel(TRANSITIONS, nnet, [0.25, 0.75])
    run.objectives = RunObjectives(run.objectives.train, run.objectives.compare, run.objectives.statistics, True)
    run.settings.priors = PriorsSection(adjust=adjust, examples=examples)
    batches = [_minibatch(seed) for seed in range(4)]
    run.source = SimpleNamespace(
        combination=lambda: iter(()),
        training=lambda epoch, position: (Placed(each, n, 0.0) for n, each in enumerate(batches)),
    )
    return run, nnet


@pytest.mark.parametrize(("examples", "looked_at"), [(100, 4), (4, 2), (3, 2)])
def test_priors_are_the_mean_posterior_of_training_examples(tmp_path: Path, examples: int, looked_at: int) -> None:
    run, nnet = _run_with_posteriors(tmp_path, examples=examples)
    _finish(run)
    posteriors = [
        row
        for seed in range(looked_at)
        for row in np.exp(np.asarray(nnet.in_test_mode().compute(_minibatch(seed).inputs[0].matrix.numpy())))
    ]
    final = nnet3.load(tmp_path / "final.mdl")
    assert isinstance(final, nnet3.AcousticModel)
    np.testing.assert_allclose(final.priors.numpy(), np.mean(posteriors, axis=0), rtol=1e-6)
    assert [event["event"] for event in run.events] == ["priors", "final"]


def test_priors_stay_if_the_settings_say_so(tmp_path: Path) -> None:
    run, _ = _run_with_posteriors(tmp_path, adjust=False)
    _finish(run)
    assert nnet3.load(tmp_path / "final.mdl").priors.tolist() == [0.25, 0.75]  # type: ignore[union-attr]


def test_priors_that_cannot_be_computed(tmp_path: Path) -> None:
    run, _ = _run_with_posteriors(tmp_path)
    run.source.training = lambda epoch, position: (each for each in ())
    with pytest.raises(Nnet3Error, match=r"no training examples .* training is done and kept: .* adjust = false"):
        _finish(run)


def test_other_processes_write_nothing(tmp_path: Path) -> None:
    run = _Run(tmp_path, {3: 1.0}, rank=1)
    _finish(run)
    assert os.listdir(tmp_path) == ["models"]
    assert run.events == []


def test_a_final_model_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "final.raw").mkdir()
    with pytest.raises(Nnet3Error, match=r"final\.raw.*; training is done and kept: when this is put right, say --re"):
        _finish(_Run(tmp_path, {}))
