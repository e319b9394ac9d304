"""A network of the demo: from its config to a trained model, with reports on the way."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from nnet3.cli.demo.report import TaskResult
from nnet3.cli.demo.task import DemoTask
from nnet3.engine.ir.passes.pipeline import optimize
from nnet3.model.nnet import Nnet
from nnet3.model.requests import build_graph, generate, schedule
from nnet3.training.train.evaluation import Evaluator
from nnet3.training.train.schedules import exponential_rate
from nnet3.training.train.trainer import Trainer, TrainerOptions


def run_task(task: DemoTask, folder: Path, console: Console, seed: int) -> TaskResult:
    """Trains and evaluates a network; writes network.config, model.raw and computation.txt into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    console.print(f"\n{task.name.upper()}: {task.what}", style="bold", highlight=False)
    start = time.perf_counter()
    nnet = Nnet.from_config(task.config_text, source=task.config, seed=seed)
    _say(
        console,
        "network",
        f"{len(nnet.nodes)} nodes, {len(nnet.components)} components, {nnet.num_parameters:,} parameters, "
        f"left context {nnet.left_context}, right context {nnet.right_context}",
        start,
    )
    (folder / "network.config").write_text(task.config_text)
    (folder / "computation.txt").write_text(_explain_compilation(task, nnet, console))
    losses, epochs = _train(task, nnet, console, seed)
    nnet.save(folder / "model.raw")
    start = time.perf_counter()
    evaluator = Evaluator(nnet.in_test_mode())
    outputs = [evaluator.add(minibatch)["output"] for minibatch in task.test_minibatches]
    result = TaskResult(task, losses, epochs, task.judge(outputs), -evaluator.stats["output"].average)
    right = round(result.accuracy * len(task.labels))
    _say(console, "test", f"{right} of {len(task.labels)} right: {result.accuracy:.1%}", start)
    return result


def _explain_compilation(task: DemoTask, nnet: Nnet, console: Console) -> str:
    """Compiles the training computation stage by stage; returns its printed form."""
    request = task.make_minibatches(0)[0].request(train=True)
    rows = ", ".join(f"{io.name} {len(io.indexes)}" for io in (*request.inputs, *request.outputs))
    console.print(f"  {'request':<12}rows: {rows}; with derivatives and model update", highlight=False)
    start = time.perf_counter()
    graph = build_graph(nnet, request)
    edges = len(graph.dependencies[1])
    start = _say(console, "graph", f"{graph.num_cindexes:,} cindexes with {edges:,} dependencies", start)
    organized = schedule(nnet, graph)
    start = _say(console, "schedule", organized.summary(), start)
    computation = generate(nnet, request, organized)
    start = _say(console, "commands", f"{len(computation.commands)} as generated", start)
    computation = optimize(computation)
    _say(
        console, "optimized", f"{len(computation.commands)} commands on {len(computation.matrices) - 1} matrices", start
    )
    return f"{computation}\n"


def _say(console: Console, stage: str, text: str, start: float) -> float:
    now = time.perf_counter()
    console.print(f"  {stage:<12}{text} ({now - start:.2f} s)", highlight=False)
    return now


def _train(task: DemoTask, nnet: Nnet, console: Console, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Cross-entropy of each minibatch, and where in training it stands, in epochs."""
    trainer, schedule = Trainer(nnet, TrainerOptions(seed=seed)), task.schedule
    losses: list[float] = []
    columns = (
        TextColumn("  train       "),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("minibatches, loss {task.fields[loss]}"),
        TimeElapsedColumn(),
    )
    start = time.perf_counter()
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as display:
        bar = display.add_task("train", total=None, loss="-")
        for epoch in range(schedule.num_epochs):
            minibatches = task.make_minibatches(epoch)
            total = len(minibatches) * schedule.num_epochs
            for minibatch in minibatches:
                done = len(losses) / total
                rate = exponential_rate(schedule.initial_learning_rate, schedule.final_learning_rate, done)
                losses.append(-trainer.train_minibatch(minibatch, rate).total.average)
                display.update(bar, completed=len(losses), total=total, loss=f"{np.mean(losses[-20:]):.3f}")
    per_epoch = len(losses) / schedule.num_epochs
    skipped = f", {trainer.num_skipped} minibatches skipped" if trainer.num_skipped else ""
    last = np.mean(losses[-round(per_epoch) :])
    text = f"{len(losses)} minibatches, {schedule.num_epochs} epochs, loss {losses[0]:.2f} to {last:.3f}{skipped}"
    _say(console, "train", text, start)
    return np.array(losses), np.arange(1, len(losses) + 1) / per_epoch
