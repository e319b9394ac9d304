"""Reports of a run, from the first process only: log, display, TensorBoard and curves."""

from __future__ import annotations

import importlib.util
import logging
import time
from pathlib import Path
from typing import Any

from nnet3.errors import Nnet3Error
from nnet3.runs.curves import can_draw, draw_curves
from nnet3.runs.display import Display
from nnet3.runs.events import EventLog, read_events
from nnet3.runs.sections import OutputSection
from nnet3.train.objectives import ObjectiveStats

_LOG = logging.getLogger("nnet3")
_SECONDS_BETWEEN_DRAWINGS = 60.0
CURVES = "curves.png"


class Reports:
    """Sends events to the log and the display, and numbers of `train` and `valid` also to TensorBoard."""

    def __init__(self, section: OutputSection, first_step: int, display: Display, is_first: bool):
        self.folder, self.display = Path(section.folder), display
        self._is_first = is_first
        self._log = EventLog(self.folder) if is_first else None
        self._scalars = Scalars(self.folder / "tensorboard", section.tensorboard and is_first, first_step)
        self._draws = section.curves and is_first and can_draw()
        self._drawn = time.monotonic()

    def event(self, name: str, **values: Any) -> None:
        """Reports one event, with its values by name."""
        if self._log is not None:
            self.display.line(name, self._log.write(name, **values))

    def record(self, name: str, **values: Any) -> None:
        """Writes an event to the log alone."""
        if self._log is not None:
            self._log.write(name, **values)

    def objectives(self, kind: str, step: int, stats: ObjectiveStats, **others: Any) -> None:
        """Reports averages of an objective (`kind`: train or valid), and other numbers that belong to them."""
        values: dict[str, Any] = {"objective": stats.average, "frames": stats.weight}
        if stats.auxiliary:
            values["auxiliary"] = stats.average_auxiliary
        if stats.counted:
            values["accuracy"] = stats.accuracy
        self.event(kind, step=step, **values, **others)
        numbers = {name: value for name, value in {**values, **others}.items() if isinstance(value, float)}
        self._scalars.write(kind, step, **numbers)

    def draw(self, *, at_once: bool = False) -> None:
        """Draw the curves, unless that was done a moment ago. A picture that cannot be drawn stops nothing."""
        if not self._draws or not (at_once or time.monotonic() - self._drawn > _SECONDS_BETWEEN_DRAWINGS):
            return
        self._drawn = time.monotonic()
        try:
            draw_curves(read_events(self.folder), self.folder / CURVES)
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
