"""Draws the curves of a run: objectives, accuracy and learning rate over minibatches."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nnet3.kaldi_io.files import write_atomically

_COLOURS = {"train": "#4c72b0", "valid": "#dd8452"}
_NAMES = {"train": "training", "valid": "held out"}

Points = tuple[list[float], list[float]]


def can_draw() -> bool:
    """Returns true if matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def points(events: Iterable[dict[str, Any]], event: str, value: str) -> Points:
    """Returns steps and values of all events of a kind that have this value."""
    found = [(float(e["step"]), float(e[value])) for e in events if e["event"] == event and e.get(value) is not None]
    return [step for step, _ in found], [number for _, number in found]


def draw_curves(events: list[dict[str, Any]], path: Path) -> None:
    """Write a PNG with the objective, accuracy and learning rate, as far as they are there, one below the other."""
    from matplotlib.figure import Figure  # an extra, and slow to import

    panels = [
        (title, [(kind, points(events, kind, value)) for kind in _NAMES])
        for title, value in (("objective per frame", "objective"), ("accuracy", "accuracy"))
    ]
    panels = [(title, [(kind, xy) for kind, xy in curves if xy[0]]) for title, curves in panels]
    panels = [(title, curves) for title, curves in panels if curves]
    rates = points(events, "train", "learning_rate")
    figure = Figure(figsize=(8, 2.4 * (len(panels) + 1)), layout="constrained")
    axes = figure.subplots(len(panels) + 1, 1, sharex=True, squeeze=False)[:, 0]
    epochs = points(events, "epoch", "step")[0]
    for axis, (title, curves) in zip(axes, panels, strict=False):
        for kind, (steps, values) in curves:
            marker = "o" if kind == "valid" or len(steps) == 1 else ""
            axis.plot(
                steps, values, color=_COLOURS[kind], label=_NAMES[kind], marker=marker, markersize=3, linewidth=1.3
            )
        axis.set_ylabel(title)
        axis.legend(loc="best", frameon=False)
    axes[-1].plot(*rates, color="#555555", linewidth=1.3, marker="o" if len(rates[0]) == 1 else "")
    axes[-1].set_ylabel("learning rate")
    if rates[1]:
        axes[-1].set_yscale("log")
    axes[-1].set_xlabel("minibatches (dotted: ends of epochs)")
    for axis in axes:
        axis.grid(alpha=0.25)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        for step in epochs:
            axis.axvline(step, color="#999999", linewidth=0.7, linestyle=":")
    contents = io.BytesIO()
    figure.savefig(contents, format="png", dpi=120)
    write_atomically(path, contents.getvalue())
