"""Several tasks in one run: outputs and weights of tables, mixed examples, statistics of each; shrinking."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import nnet3
from nnet3.errors import ConfigError, TrainingError
from nnet3.model.nnet import Nnet, load_nnet
from nnet3.training.runs.archives import FramesKind
from nnet3.training.runs.data_kinds import ArchivesSection
from nnet3.training.runs.interfaces import Share
from nnet3.training.runs.nnet_training_run import saturation
from nnet3.training.train.schedules import shrinkage
from tests.runs.task import Task


def _two_outputs(task: Task) -> Path:
    """Makes a network with `output`, as the task's, and `output-b` of as many columns; tables of both tasks."""
    config = (task.folder / "net.config").read_text()
    nnet = Nnet.from_config(config)
    dim = nnet.output_dims["output"]
    extra = f"""
component name=b.affine type=NaturalGradientAffineComponent input-dim={nnet.input_dims["input"]} output-dim={dim}
component-node name=b.affine component=b.affine input=input
component name=b.softmax type=LogSoftmaxComponent dim={dim}
component-node name=b.softmax component=b.softmax input=b.affine
output-node name=output-b input=b.softmax objective=linear
"""
    path = task.folder / "two.config"
    path.write_text(config + extra)
    task.write_examples(task.folder / "other.ark", 50, 7)
    folder = task.folder
    task.change(
        model__file=f'"{path}"',
        data__train=f'["ark:{folder}/train.ark", "ark:{folder}/other.ark"]',
        data__train_outputs='["output", "output-b"]',
        data__valid=f'["ark:{folder}/valid.ark", "ark:{folder}/valid.ark"]',
        data__valid_outputs='["output", "output-b"]',
        output__print_every=2,
        training__epochs=2,
    )
    return path


def test_outputs_of_their_own_and_statistics_of_each(task: Task) -> None:
    path = _two_outputs(task)
    assert task.run() == 0
    names = {"objective_of_output", "objective_of_output-b"}
    assert all(names <= event.keys() for event in task.events("valid"))
    assert any(names <= event.keys() for event in task.events("train"))
    final, start = load_nnet(task.exp / "final.raw"), Nnet.from_config_file(path)
    assert not torch.equal(
        final.components["b.affine"].parameters()["linear_params"],
        start.components["b.affine"].parameters()["linear_params"],
    )


def test_a_task_of_weight_zero_learns_nothing(task: Task) -> None:
    path = _two_outputs(task)
    task.change(data__train_weights="[1.0, 0.0]", combination__models=0)
    assert task.run() == 0
    final, start = load_nnet(task.exp / "final.raw"), Nnet.from_config_file(path)
    for name, parameter in start.components["b.affine"].parameters().items():
        assert torch.equal(parameter, final.components["b.affine"].parameters()[name])


def test_examples_of_tables_are_mixed(task: Task) -> None:
    path, folder = _two_outputs(task), task.folder
    section = ArchivesSection(
        train=(f"ark:{folder}/train.ark", f"ark:{folder}/other.ark"),
        train_outputs=("output", "output-b"),
        minibatch_size="5",
        shuffle_buffer=1,
    )
    source = FramesKind().open(section, nnet3.Nnet.from_config_file(path), Share(), 0)
    said = [placed.minibatch.targets[0].name for placed in source.training(0, None)]
    assert {*said} == {"output", "output-b"}
    assert sum(one != two for one, two in pairwise(said)) > 1
    half = said[: len(said) // 2]
    assert {*half} == {*said}
    resumed = [placed.minibatch.targets[0].name for placed in source.training(0, 3)]
    assert resumed == said[3:]


def test_as_many_outputs_as_tables(task: Task) -> None:
    _two_outputs(task)
    task.change(data__train_outputs='["output"]')
    with pytest.raises(ConfigError, match=r"train-outputs: expected one for each of 2 tables, got 1"):
        task.run()
    task.change(data__train_outputs='["output", "nosuch"]')
    with pytest.raises(
        ConfigError, match=r"train-outputs: the network has no output 'nosuch'; it has output, output-b"
    ):
        task.run()


def test_some_task_must_count(task: Task) -> None:
    _two_outputs(task)
    task.change(data__train_weights="[0.0, 0.0]")
    with pytest.raises(ConfigError, match=r"train-weights: all are 0: there would be nothing to train on"):
        task.run()


def test_no_task_needs_to_be_called_output(task: Task) -> None:
    path = _two_outputs(task)
    path.write_text(path.read_text().replace("output-node name=output ", "output-node name=output-a "))
    outputs = '["output-a", "output-b"]'
    task.change(data__train_outputs=outputs, data__valid_outputs=outputs)
    assert task.run() == 0
    assert load_nnet(task.exp / "final.raw").output_names == ["output-a", "output-b"]


def test_parameters_are_shrunk_before_each_round(task: Task) -> None:
    task.change(
        training__proportional_shrink=10.0, training__epochs=1, distributed__round=4, combination__models=0,
        training__max_param_change=1e-30,
    )  # fmt: skip
    assert task.run() == 0
    shrunk = task.events("shrink")
    assert [event["step"] for event in shrunk] == [0, 4, 8]
    assert shrunk[0]["factor"] == pytest.approx(1 - 10 * 0.02)
    factor = np.prod([event["factor"] for event in shrunk])
    start = Nnet.from_config_file(task.folder / "net.config")
    final = load_nnet(task.exp / "final.raw")
    for name, component in start.components.items():
        if getattr(component, "orthonormal_constraint", 0.0) != 0.0:
            continue
        for key, parameter in component.parameters().items():
            np.testing.assert_allclose(
                final.components[name].parameters()[key], factor * parameter, rtol=1e-4, atol=1e-6
            )


def test_factors_of_shrinking() -> None:
    assert shrinkage(0.01, 0.0, 1.0, True) == 1.0
    assert shrinkage(0.01, 20.0, 0.9, False) == pytest.approx(0.8)
    assert shrinkage(0.01, 20.0, 0.7, True) == pytest.approx(0.7)
    assert shrinkage(0.01, 20.0, 0.9, True) == pytest.approx(0.8)
    with pytest.raises(TrainingError, match=r"which must stay above 0\.5"):
        shrinkage(0.05, 10.0, 1.0, False)


def test_saturation_is_the_mean_over_nonlinearities() -> None:
    nnet = Nnet.from_config(
        """
        input-node name=input dim=2
        component name=a type=SigmoidComponent dim=2
        component name=b type=TanhComponent dim=2
        component-node name=a component=a input=input
        component-node name=b component=b input=a
        output-node name=output input=b
        """
    )
    assert saturation(nnet) == 0.0
    for name, most in (("a", 0.25), ("b", 1.0)):
        component = nnet.components[name]
        component.deriv_sum = 4 * most * torch.tensor([0.5, 0.25], dtype=torch.float64)  # type: ignore[attr-defined]
        component.count = 4.0  # type: ignore[attr-defined]
    assert saturation(nnet) == pytest.approx(1 - 0.375)
