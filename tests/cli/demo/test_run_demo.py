"""The demo with little data: what it writes and says (the real one is `make demo`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nnet3 import load
from nnet3.cli.demo import run_demo as module
from nnet3.cli.demo.digits import digit_tasks
from nnet3.cli.demo.task import DemoTask
from tests.cli.run_command import Cli

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="the digits are those of scikit-learn")
pytest.importorskip("matplotlib")


def _small(task: DemoTask, **changes: object) -> DemoTask:
    """Two minibatches, and outputs that say for the first five images that they are what they are not."""

    def judge(outputs: object) -> np.ndarray:
        scores = np.eye(10)[task.labels]
        scores[:5] = np.roll(scores[:5], 1, axis=1)
        return scores

    return replace(
        task,
        schedule=replace(task.schedule, num_epochs=1),
        make_minibatches=lambda epoch: task.make_minibatches(epoch)[:2],
        judge=judge,
        **changes,  # type: ignore[arg-type]
    )


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets the demo have these tasks instead of its own."""

    def offer(*tasks: DemoTask, kind: str = "digit_tasks") -> None:
        monkeypatch.setattr(module, kind, lambda *arguments: asked.append(arguments) or [*tasks])

    asked: list[tuple[object, ...]] = []
    offer.asked = asked  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=itertools.count(100, 7).__next__))
    return offer


def test_what_it_writes_and_says(cli: Cli, offered: Callable[..., None]) -> None:
    task = _small(digit_tasks(seed=1)[0], goal=594 / 599)
    offered(task)
    outcome = cli("demo", "--folder=results")
    assert (outcome.status, outcome.err) == (0, "")
    assert offered.asked == [(1,)]  # type: ignore[attr-defined]
    lines = outcome.out.splitlines()
    assert lines[0] == "Scanned handwritten digits: loading"
    assert "2 minibatches, 1 epochs" in outcome.out
    assert lines[-3:] == [
        "",
        "TDNN  99.2% accuracy: learnt",
        "Results are in results/ (look at results/report.png); 7 s in all.",
    ]
    folder = Path("results")
    assert load(folder / "model.raw").info().startswith("left-context")
    assert (folder / "network.config").read_text() == task.config_text
    assert (folder / "computation.txt").read_text().startswith("# ")
    assert (folder / "report.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("terminal", "width"), [(True, 50), (False, 120)])
def test_lines_are_as_wide_as_the_terminal(
    cli: Cli, offered: Callable[..., None], monkeypatch: pytest.MonkeyPatch, terminal: bool, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setattr(module, "run_task", lambda task, folder, console, seed: widths.append(console.width) or result)
    monkeypatch.setattr(module, "write_report", lambda *_: None)
    widths: list[int] = []
    result = SimpleNamespace(task=SimpleNamespace(goal=0.5, name="a"), accuracy=1.0)
    offered(digit_tasks(seed=1)[0])
    cli.good("demo")
    assert widths == [width]


def test_each_of_several_networks_has_its_folder(cli: Cli, offered: Callable[..., None]) -> None:
    """One that has learnt too little is an error, said after all is written."""
    task = digit_tasks(seed=1)[0]
    offered(_small(task, goal=0.5), _small(task, name="other", goal=0.995))
    outcome = cli("demo", "--seed=3")
    assert outcome.status == 1
    assert offered.asked == [(3,)]  # type: ignore[attr-defined]
    assert outcome.err == "nnet3: 1 of 2 networks did not reach the accuracy they should\n"
    assert outcome.out.splitlines()[-3:] == [
        "TDNN  99.2% accuracy: learnt",
        "OTHER 99.2% accuracy: below the 100% it should reach",
        "Results are in demo-out/ (look at demo-out/report.png); 7 s in all.",
    ]
    found = sorted(str(path.relative_to("demo-out")) for path in Path("demo-out").rglob("*.*"))
    names = ("computation.txt", "model.raw", "network.config")
    assert found == [*(f"other/{name}" for name in names), "report.png", *(f"tdnn/{name}" for name in names)]


def test_spoken_digits_are_loaded_from_the_archive_that_is_named(cli: Cli, offered: Callable[..., None]) -> None:
    offered(_small(digit_tasks(seed=1)[0], goal=0.0), kind="speech_tasks")
    assert cli.good("demo", "--speech=x.zip").out.startswith("Spoken digits: loading\n")
    assert offered.asked == [("x.zip", 1)]  # type: ignore[attr-defined]
