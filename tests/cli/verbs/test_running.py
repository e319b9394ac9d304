"""The verb `train-model`: what it prints and how it ends; runs themselves are tested in tests/runs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, NoReturn

import pytest

from nnet3.errors import LostError
from nnet3.training.runs import train_model
from nnet3.training.runs.data_kinds import KINDS
from nnet3.training.runs.settings import describe_settings
from nnet3.training.runs.settings_text import parse_toml
from nnet3.training.runs.stop import StopRequest
from tests.cli.run_command import Cli


def test_describe_prints_a_file_with_every_key(cli: Cli) -> None:
    text = cli.good("train-model", "--describe").out
    assert text == describe_settings(*KINDS.sections)
    values = parse_toml(text, "run.toml").sections
    assert values["training"]["epochs"] == 10
    assert values["data"]["kind"] == "frames"
    filled = text.replace('file = ""  ', 'file = "x"').replace('folder = ""  ', 'folder = "x"')
    assert KINDS.read(parse_toml(filled, "run.toml")).training.epochs == 10


def test_wrong_usage_and_mistakes(cli: Cli) -> None:
    outcome = cli("train-model")
    assert outcome.status == 2
    assert "give a settings file; --describe prints one" in outcome.err
    outcome = cli("train-model", "none.toml")
    assert (outcome.status, outcome.err) == (
        1,
        "nnet3: none.toml: cannot read this settings file: No such file or directory\n",
    )
    Path("run.yaml").write_text("model:\n  file: net.config\ntraining:\n  epochs: many\noutput: {folder: exp}\n")
    outcome = cli("train-model", "run.yaml")
    assert outcome.status == 1
    assert outcome.err.startswith("nnet3: run.yaml:4:3: [training] epochs: expected an integer >= 1, got 'many'\n")
    assert not Path("exp").exists()


def test_the_page_is_looked_at_before_the_run(cli: Cli) -> None:
    Path("net.config").write_text("input-node name=input dim=3\noutput-node name=output input=input\n")
    Path("run.toml").write_text('model.file = "net.config"\ndata.train = "ark:none.ark"\noutput.folder = "exp"\n')
    outcome = cli("train-model", "--page=no/such/page.html", "run.toml")
    assert (outcome.status, "no/such/page.html: cannot write this file" in outcome.err) == (1, True)
    outcome = cli("train-model", "--page=exp/page.html", "run.toml")  # the folder comes with the run
    assert (outcome.status, "none.ark" in outcome.err) == (1, True)
    assert not Path("exp").exists()  # as nothing was written there


def test_a_run_that_fails_says_why_though_a_signal_comes_meanwhile(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from torchrun, when another process has died."""

    def fail(*_: Any, stop: StopRequest, **__: Any) -> NoReturn:
        try:
            with stop.listening():
                raise LostError("the others are lost")
        finally:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(train_model, "train_model", fail)
    Path("run.toml").write_text('model.file = "net.config"\noutput.folder = "exp"\n')
    before = signal.getsignal(signal.SIGTERM)
    outcome = cli("train-model", "run.toml")
    assert (outcome.status, outcome.err) == (1, "nnet3: the others are lost\n")
    assert signal.getsignal(signal.SIGTERM) is before
