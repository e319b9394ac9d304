"""A page of a training run: curves, learning rates, speed and time shares, updates, what was skipped, settings."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from nnet3.errors import Nnet3Error
from nnet3.explore.histograms import histograms
from nnet3.explore.html import page
from nnet3.model.nnet import load_nnet
from nnet3.training.runs.events import read_events
from nnet3.training.runs.reports import points

SCRIPTS = ("base.js", "run.js", "explorer.js")
#: Title of a picture: the curves in it, each with its event and value.
CURVES = {
    "objective per frame": {"training": ("train", "objective"), "held out": ("valid", "objective")},
    "accuracy": {"training": ("train", "accuracy"), "held out": ("valid", "accuracy")},
    "learning rate": {"learning rate": ("train", "learning_rate")},
    "frames per second": {"frames per second": ("train", "frames_per_second")},
    "share of time spent waiting for data": {"each epoch": ("epoch", "idle_share")},
}
_ALWAYS = {"train", "settings"}  # events that the list of events leaves out
_LARGEST_MODEL = 500_000_000  # bytes of a file of which updates are shown


def run_page(folder: str | os.PathLike[str]) -> str:
    """Returns an HTML page of the run in a folder, as far as it has come.

    Updates are the differences of the last two models kept by the run. Raises Nnet3Error without a log.
    """
    path = Path(folder)
    try:
        events = read_events(path)
    except OSError as error:
        raise Nnet3Error(f"{path}: no log of a training run: {error.strerror}: give the folder of a run") from None
    return page(f"{path.name} - nnet3", run_data(path, events), SCRIPTS)


def run_data(folder: Path, events: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns `curves`, `epochs`, `events`, `settings` and `updates` as plain data."""
    settings = [event for event in events if event["event"] == "settings"]
    last = events[-1] if events else {"event": "nothing yet", "step": 0}
    skipped = sum(event["event"] == "skip" for event in events)
    facts = {"kind": "training run", "last": last["event"], "minibatches": last.get("step", 0), "skipped": skipped}
    return {
        "title": folder.resolve().name,
        "network": {"layers": [], "nodes": [], "arcs": [], "components": [], "facts": facts},
        "curves": [{"title": title, "lines": _lines(events, lines)} for title, lines in CURVES.items()],
        "epochs": points(events, "epoch", "step")[0],
        "events": [_told(event) for event in events if event["event"] not in _ALWAYS],
        "settings": [[name, str(value)] for name, value in (settings[-1] if settings else {}).items()],
        "updates": _updates(folder),
    }


def _lines(events: list[dict[str, Any]], lines: dict[str, tuple[str, str]]) -> list[dict[str, Any]]:
    found = {name: points(events, event, value) for name, (event, value) in lines.items()}
    return [{"name": name, "steps": steps, "values": values} for name, (steps, values) in found.items() if steps]


def _told(event: dict[str, Any]) -> list[str]:
    """Returns the time of an event, its name, and its values."""
    values = {name: value for name, value in event.items() if name not in ("event", "time")}
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.get("time", 0)))
    return [when, event["event"], ", ".join(f"{name} {value}" for name, value in values.items())]


def _updates(folder: Path) -> list[dict[str, Any]]:
    """Histograms of the changes from the last model but one to the last model, by component."""
    models = sorted((folder / "models").glob("*.raw"))[-2:]
    try:
        if len(models) < 2 or models[-1].stat().st_size > _LARGEST_MODEL:
            return []
        before, after = (load_nnet(path) for path in models)
    except (Nnet3Error, OSError):  # the run goes on: a model may just be written, or removed
        return []
    differences = {
        f"{name}.{key}": tensor - before.components[name].parameters()[key]
        for name, component in after.components.items()
        for key, tensor in component.parameters().items()
    }
    return histograms(differences)
