"""Reports of a run, from the first process only: log, display, TensorBoard and curves."""

from __future__ import annotations

import importlib.util
import io
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnet3.base.kaldi_io.files import write_atomically
from nnet3.base.options.run import OutputSection
from nnet3.errors import Nnet3Error
from nnet3.training.runs.display import Display
from nnet3.training.runs.events import EventLog, read_events
from nnet3.training.train.objectives import ObjectiveStats

_COLOURS = {"train": "#4c72b0", "valid": "#dd8452"}
_NAMES = {"train": "training", "valid": "held out"}

Points = tuple[list[float], list[float]]
_LOG = logging.getLogger("nnet3")
_SECONDS_BETWEEN_DRAWINGS = 60.0
CURVES = "curves.png"


def can_draw() -> bool:
    """Returns true if matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def points(events: Iterable[dict[str, Any]], event: str, value: str) -> Points:
    """Returns steps and values of all events of a kind that have the value."""
    found = [(float(e["step"]), float(e[value])) for e in events if e["event"] == event and e.get(value) is not None]
    return [step for step, _ in found], [number for _, number in found]


@dataclass(frozen=True)
class Words:
    """The words of a run for its reports: the objective, the values told beside it, and the panels of curves.

    Values beside the objective are told if they have at least so many names. `curves`: titles by the names of values.
    """

    objective: str = "objective"
    weight: str = "frames"
    other: str = "objective_of_{}"
    least_others: int = 2
    curves: Mapping[str, str] = field(
        default_factory=lambda: {"objective": "objective per frame", "accuracy": "accuracy"}
    )


def draw_curves(events: list[dict[str, Any]], path: Path, titles: Mapping[str, str] = Words().curves) -> None:
    """Writes a PNG with the curves that have titles, and the learning rate, as far as the log has values."""
    from matplotlib.figure import Figure  # an extra, and slow to import

    found = [(title, [(kind, points(events, kind, value)) for kind in _NAMES]) for value, title in titles.items()]
    panels = [(title, [(kind, xy) for kind, xy in curves if xy[0]]) for title, curves in found]
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
    if rates[1] and min(rates[1]) > 0:
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


class Reports:
    """Sends events to the log and the display, and numbers of `train` and `valid` also to TensorBoard."""

    def __init__(
        self, section: OutputSection, first_step: int, display: Display, is_first: bool, words: Words | None = None
    ):
        self.folder, self.display, self.words = Path(section.folder), display, words or Words()
        self._is_first = is_first
        self._log = EventLog(self.folder) if is_first else None
        self._scalars = Scalars(self.folder / "tensorboard", section.tensorboard and is_first, first_step)
        self._draws = section.curves and is_first and can_draw()
        self._drawn = time.monotonic()

    def event(self, name: str, **values: Any) -> None:
        """Reports one event, with values by name."""
        if self._log is not None:
            self.display.line(name, self._log.write(name, **values))

    def record(self, name: str, **values: Any) -> None:
        """Writes an event to the log alone."""
        if self._log is not None:
            self._log.write(name, **values)

    def objectives(
        self, kind: str, step: int, stats: ObjectiveStats, tasks: Mapping[str, ObjectiveStats], **others: Any
    ) -> None:
        """Reports averages of an objective (`kind`: train or valid), and other numbers that belong to them.

        `tasks`: values told beside the objective, by name, such as the objectives of several output nodes.
        """
        values: dict[str, Any] = {self.words.objective: stats.average, self.words.weight: stats.weight}
        if stats.auxiliary:
            values["auxiliary"] = stats.average_auxiliary
        if stats.counted:
            values["accuracy"] = stats.accuracy
        values |= self.averages(stats, tasks)
        self.event(kind, step=step, **values, **others)
        numbers = {name: value for name, value in {**values, **others}.items() if isinstance(value, float)}
        self._scalars.write(kind, step, **numbers)

    def averages(self, stats: ObjectiveStats, tasks: Mapping[str, ObjectiveStats]) -> dict[str, float]:
        """Returns the objective, and what is told beside it, by the words of the run."""
        seen = {name: own for name, own in tasks.items() if own.weight}
        found = {self.words.objective: stats.average}
        if len(seen) >= self.words.least_others:
            found |= {self.words.other.format(name): own.average for name, own in seen.items()}
        return found

    def draw(self, *, at_once: bool = False) -> None:
        """Draws the curves, unless they were drawn a moment ago. A picture that cannot be drawn stops nothing."""
        if not self._draws or not (at_once or time.monotonic() - self._drawn > _SECONDS_BETWEEN_DRAWINGS):
            return
        self._drawn = time.monotonic()
        try:
            draw_curves(read_events(self.folder), self.folder / CURVES, self.words.curves)
        except (Nnet3Error, OSError, ValueError) as error:
            _LOG.warning("%s: the curves cannot be drawn: %s", self.folder / CURVES, error)

    def close(self) -> None:
        self._scalars.close()
        if self._log is not None:
            self._log.close()


class Scalars:
    """Writes numbers by name and step for TensorBoard, if it is installed."""

    def __init__(self, folder: Path, wanted: bool, first_step: int):
        """`first_step`: TensorBoard hides what a run that was cut short wrote for later steps."""
        self._writer: Any = None
        if wanted and importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter  # an extra, and slow to import

            self._writer = SummaryWriter(str(folder), purge_step=first_step or None)

    def write(self, group: str, step: int, **values: float | None) -> None:
        if self._writer is None:
            return
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(f"{group}/{name}", value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
