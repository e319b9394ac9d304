"""Shows a run: a bar with speed and time left on a terminal, the log's lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

_STYLES = {"valid": "green", "epoch": "bold", "skip": "yellow", "resume": "cyan", "final": "bold green", "stop": "bold"}


class Display:
    """Shows the progress of a run; silent in all processes but the first."""

    def __init__(self, console: Console | None = None, is_first: bool = True):
        self._console = Console(stderr=True) if console is None else console
        self._is_first = is_first
        self._progress: Progress | None = None
        self._started, self._first_done, self._frames = time.perf_counter(), 0.0, 0

    @contextlib.contextmanager
    def showing(self, done: float) -> Iterator[None]:
        """Shows updates within it; `done`: the part of the run already over."""
        self._started, self._first_done, self._frames = time.perf_counter(), done, 0
        if not (self._is_first and self._console.is_terminal):
            yield
            return
        columns = (
            TextColumn("{task.fields[epoch]}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[objective]}"),
            TextColumn("{task.fields[speed]}"),
            TextColumn("{task.fields[left]}"),
        )
        self._progress = Progress(*columns, console=self._console, transient=True, refresh_per_second=4)
        self._task = self._progress.add_task("", total=1.0, epoch="", objective="", speed="", left="starting")
        with self._progress:
            yield
        self._progress = None

    def line(self, event: str, text: str) -> None:
        """Shows a line of the log. On a terminal the bar replaces the frequent ones.

        Training goes on if nobody can see it: the line is in the log.
        """
        if not self._is_first:
            return
        with contextlib.suppress(OSError):
            if not self._console.is_terminal:
                print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}", file=self._console.file, flush=True)
            elif event != "train":
                self._console.print(Text(text, style=_STYLES.get(event, "")), soft_wrap=True)

    def update(self, done: float, frames: int, epoch: str, objective: float | None) -> None:
        """Counts a minibatch of `frames` frames and moves the bar; `done`: the finished part of the run, 0 to 1."""
        self._frames += frames
        if self._progress is None:
            return
        left = self.seconds_left(done)
        self._progress.update(
            self._task,
            completed=done,
            epoch=f"epoch {epoch}",
            objective="" if objective is None else f"objective {objective:.4f}",
            speed=f"{self.frames_per_second:,.0f} frames/s",
            left="" if left is None else f"{format_seconds(left)} left",
        )

    @property
    def frames_per_second(self) -> float:
        return self._frames / max(time.perf_counter() - self._started, 1e-9)

    def seconds_left(self, done: float) -> float | None:
        """Returns the time left at the speed so far; None if nothing is done yet."""
        own = done - self._first_done
        return (time.perf_counter() - self._started) * (1.0 - done) / own if own > 0 else None


def format_seconds(seconds: float) -> str:
    """Returns a duration such as 45 s, 3 min 20 s, 2 h 05 min, 3 d 04 h."""
    whole = round(seconds)
    for unit, size, smaller, per in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // per:02d} {smaller}"
    return f"{whole} s"
