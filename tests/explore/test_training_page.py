"""The page of a training run: what its log says, as data and in a browser."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from nnet3.cli import main
from nnet3.errors import Nnet3Error
from nnet3.explore import run_page
from nnet3.explore.training_page import run_data
from nnet3.training.runs.events import read_events
from tests.explore.browser import missing, visit

SETTINGS = """
[model]
file = "net.config"
[data]
train = "ark:train.ark"
valid = "ark:valid.ark"
minibatch-size = 8
[training]
epochs = 2
[combination]
models = 3
[output]
folder = "exp"
print-every = 4
curves = false
tensorboard = false
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    data = importlib.import_module("tools.kill_training_data")
    monkeypatch.chdir(tmp_path)
    data.write_examples(tmp_path / "train.ark", 60, 1)
    data.write_examples(tmp_path / "valid.ark", 16, 2)
    (tmp_path / "net.config").write_text(data.CONFIG)
    (tmp_path / "run.toml").write_text(SETTINGS)
    with pytest.raises(SystemExit) as ended:
        main(["train-model", "--serve=0", "--page=run.html", "run.toml"])
    assert ended.value.code == 0
    return tmp_path


def test_a_run_has_a_page(folder: Path) -> None:
    events = read_events(folder / "exp")
    data = run_data(folder / "exp", events)
    curves = {curve["title"]: [line["name"] for line in curve["lines"]] for curve in data["curves"]}
    assert curves["objective per frame"] == ["training", "held out"]
    assert curves["learning rate"] == ["learning rate"]
    assert curves["share of time spent waiting for data"] == ["each epoch"]
    assert data["epochs"] == [7.0, 14.0]
    assert {event for _, event, _ in data["events"]} >= {"start", "epoch", "valid", "final"}
    assert ["training.epochs", "2"] in data["settings"]
    assert "affine1.linear_params" in [each["name"] for each in data["updates"]]
    assert '"kind":"training run"' in (folder / "run.html").read_text()
    if missing():
        return
    steps = [["count", ".chart"], ["focus", ".chart"], ["press", "ArrowRight"], ["text", ".curves .said"]]
    steps += [["click", "#tab-updates"], ["count", ".histogram"], ["click", "#tab-events"]]
    steps += [
        ["fill", ".events input", "valid"],
        ["count", ".events .row"],
        ["click", "#tab-settings"],
        ["text", ".settings"],
    ]
    seen = visit(folder / "run.html", steps)
    assert seen.errors == []
    charts, pointed_at, histograms, events, settings = seen.found
    assert (charts, events) == (5, 2)
    assert pointed_at.startswith("objective per frame, training: -")
    assert histograms >= 4
    assert "training.epochs" in settings


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"event": "start", "time": 1.0, "step": 0}\n')
    (tmp_path / "models").mkdir()
    for name in ("1.raw", "2.raw"):
        (tmp_path / "models" / name).write_text("cut sh")
    page = run_page(tmp_path)
    assert '"updates":[]' in page
    assert '"lines":[]' in page


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(Nnet3Error, match="no log of a training run"):
        run_page(tmp_path)
