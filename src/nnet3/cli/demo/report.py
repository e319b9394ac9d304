"""The picture of a demo: loss curve, confusion matrix and examples of errors of each network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nnet3.cli.demo.task import DemoTask

_MAX_WRONG = 12
_INK, _ACCENT, _MUTED = "#222222", "#2a6f97", "#888888"


@dataclass(frozen=True)
class TaskResult:
    """The outcome of training and evaluating a task."""

    task: DemoTask
    losses: np.ndarray  # (minibatches,) cross-entropy per labelled frame
    epochs: np.ndarray  # (minibatches,) where in training, in epochs
    scores: np.ndarray  # (examples, classes)
    test_loss: float

    @property
    def predictions(self) -> np.ndarray:
        return self.scores.argmax(axis=1)

    @property
    def accuracy(self) -> float:
        return float((self.predictions == self.task.labels).mean())


def write_report(results: Sequence[TaskResult], path: Path, title: str) -> None:
    """Writes a PNG with a row of plots for each network."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(15, 4.9 * len(results) + 0.5), facecolor="white", layout="constrained")
    figure.suptitle(title, fontsize=15, color=_INK, x=0.01, ha="left")
    rows = figure.subfigures(len(results), 1, squeeze=False)[:, 0]
    for row, result in zip(rows, results, strict=True):
        name = result.task.name.upper()
        row.suptitle(f"{name}: {result.accuracy:.1%} of {len(result.task.labels)} test examples right", fontsize=13)
        left, middle, right = row.subfigures(1, 3, width_ratios=[1.1, 1.1, 1.3])
        _plot_losses(left.subplots(), result)
        _plot_confusion(middle.subplots(), result)
        _plot_wrong(right, result)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _plot_losses(axes: Any, result: TaskResult) -> None:
    axes.plot(result.epochs, result.losses, color=_ACCENT, alpha=0.25, linewidth=0.8, label="each minibatch")
    width = max(1, len(result.losses) // 60)
    smooth = np.convolve(result.losses, np.ones(width) / width, mode="valid")
    axes.plot(result.epochs[width - 1 :], smooth, color=_ACCENT, linewidth=2, label=f"mean of {width}")
    axes.axhline(
        result.test_loss, color="#c1121f", linestyle="--", linewidth=1.2, label=f"test: {result.test_loss:.3f}"
    )
    axes.set_yscale("log")
    axes.set_xlabel("epoch")
    axes.set_ylabel("cross-entropy per label (nats)")
    axes.set_title("Loss in training", fontsize=11)
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _plot_confusion(axes: Any, result: TaskResult) -> None:
    count = result.scores.shape[1]
    matrix = np.zeros((count, count), int)
    np.add.at(matrix, (result.task.labels, result.predictions), 1)
    share = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for row, column in zip(*np.nonzero(matrix), strict=True):
        color = "white" if share[row, column] > 0.5 else _INK
        axes.text(column, row, matrix[row, column], ha="center", va="center", fontsize=8, color=color)
    axes.set_xticks(range(count))
    axes.set_yticks(range(count))
    axes.set_xlabel("decided")
    axes.set_ylabel("true digit")
    axes.set_title("Confusion matrix (counts)", fontsize=11)


def _plot_wrong(figure: Any, result: TaskResult) -> None:
    wrong = np.flatnonzero(result.predictions != result.task.labels)
    shown = wrong[:_MAX_WRONG]
    figure.suptitle(f"Examples it got wrong ({len(shown)} of {len(wrong)})", fontsize=11)
    if len(shown) == 0:
        figure.text(0.5, 0.5, "none", ha="center", color=_MUTED)
        return
    axes = figure.subplots(3, 4).ravel()
    for axis in axes:
        axis.axis("off")
    for axis, example in zip(axes, shown, strict=False):
        picture = result.task.pictures[example]
        axis.imshow(picture, cmap="gray_r", aspect="auto" if picture.shape[1] > picture.shape[0] else "equal")
        truth, decided = result.task.labels[example], result.predictions[example]
        axis.set_title(f"{truth}, taken for {decided}", fontsize=9, color=_INK, pad=3)
