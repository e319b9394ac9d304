"""One network of the demo: it is trained as its schedule says, judged on the test data, and all of it is told."""

from __future__ import annotations

import io
import itertools
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console

from nnet3 import load
from nnet3.cli.demo import run_task as module
from nnet3.cli.demo.digits import digit_tasks
from nnet3.cli.demo.report import TaskResult
from nnet3.cli.demo.run_task import run_task
from nnet3.cli.demo.task import DemoTask, RateSchedule
from nnet3.engine.ir.passes.pipeline import optimize
from nnet3.model.nnet import Nnet
from nnet3.model.requests import build_graph, generate, schedule
from nnet3.train import Evaluator, Trainer, TrainerOptions, exponential_rate

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="the digits are those of scikit-learn")
SCHEDULE = RateSchedule(num_epochs=2, initial_learning_rate=0.01, final_learning_rate=0.001)


def _small(**changes: object) -> DemoTask:
    task = digit_tasks(seed=1)[0]
    minibatches = task.make_minibatches(0)[:3]
    return replace(task, schedule=SCHEDULE, make_minibatches=lambda epoch: minibatches, **changes)  # type: ignore[arg-type]


def _run(task: DemoTask, folder: Path, **options: object) -> tuple[TaskResult, str]:
    file = io.StringIO()
    console = Console(file=file, width=200, **options)  # type: ignore[arg-type]
    return run_task(task, folder, console, seed=5), file.getvalue()


def test_it_is_trained_and_judged(tmp_path: Path) -> None:
    task = _small()
    result, _ = _run(task, tmp_path / "new" / "folder")
    nnet = Nnet.from_config(task.config_text, seed=5)
    trainer, losses = Trainer(nnet, TrainerOptions(seed=5)), []
    for number in range(6):
        minibatch = task.make_minibatches(0)[number % 3]
        losses.append(-trainer.train_minibatch(minibatch, exponential_rate(0.01, 0.001, number / 6)).total.average)
    assert result.losses.tolist() == losses
    np.testing.assert_allclose(result.epochs, np.arange(1, 7) / 3)
    evaluator = Evaluator(nnet.in_test_mode())
    scores = evaluator.add(task.test_minibatches[0])["output"]
    np.testing.assert_array_equal(result.scores, scores)
    assert result.test_loss == -evaluator.stats["output"].average
    assert result.accuracy == (np.asarray(scores).argmax(1) == task.labels).mean()
    own, saved = nnet.components, load(tmp_path / "new/folder/model.raw").components
    for name, component in own.items():
        for key, tensor in component.parameters().items():
            torch.testing.assert_close(saved[name].parameters()[key], tensor, rtol=0, atol=0)


def test_what_it_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=itertools.count(100.0, 0.25).__next__))
    task = _small()
    result, out = _run(task, tmp_path)
    nnet = Nnet.from_config(task.config_text, seed=5)
    request = task.make_minibatches(0)[0].request(train=True)
    graph = build_graph(nnet, request)
    organized = schedule(nnet, graph)
    generated = generate(nnet, request, organized)
    computation = optimize(generated)
    nodes = f"{len(nnet.nodes)} nodes, {len(nnet.components)} components, {nnet.num_parameters:,} parameters"
    losses = f"loss {result.losses[0]:.2f} to {np.mean(result.losses[-3:]):.3f}"
    assert out.splitlines() == [
        "",
        f"TDNN: {task.what}",
        f"  network     {nodes}, left context {nnet.left_context}, right context {nnet.right_context} (0.25 s)",
        "  request     rows: input 512, output 64; with derivatives and model update",
        f"  graph       {graph.num_cindexes:,} cindexes with {len(graph.dependencies[1]):,} dependencies (0.25 s)",
        f"  schedule    {organized.summary()} (0.25 s)",
        f"  commands    {len(generated.commands)} as generated (0.25 s)",
        f"  optimized   {len(computation.commands)} commands on {len(computation.matrices) - 1} matrices (0.25 s)",
        f"  train       6 minibatches, 2 epochs, {losses} (0.25 s)",
        f"  test        {round(result.accuracy * 599)} of 599 right: {result.accuracy:.1%} (0.25 s)",
    ]
    assert (tmp_path / "computation.txt").read_text() == f"{computation}\n"
    assert (tmp_path / "network.config").read_text() == task.config_text


def test_minibatches_that_are_skipped_are_told(tmp_path: Path) -> None:
    task = _small()
    bad = task.make_minibatches(0)[1]
    broken = replace(bad, inputs=[replace(bad.inputs[0], matrix=torch.full_like(bad.inputs[0].matrix, torch.nan))])
    minibatches = [task.make_minibatches(0)[0], broken]
    _, out = _run(replace(task, make_minibatches=lambda epoch: minibatches), tmp_path)
    assert ", 2 minibatches skipped (" in out


def test_a_terminal_gets_a_bar(tmp_path: Path) -> None:
    _, out = _run(_small(), tmp_path, force_terminal=True)
    assert "━" in out
    assert "━" not in _run(_small(), tmp_path)[1]
