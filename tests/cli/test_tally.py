"""Counts of utterances: what is said, when, and where."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from nnet3.cli import tally as module
from nnet3.cli.tally import UtteranceTally


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now = 1000.0
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_all_is_counted(clock: Clock) -> None:
    tally = UtteranceTally()
    assert str(tally) == "0 utterances computed, 0 left out; 0 frames in 0.00 s"
    tally.add(done=2, frames=30)
    tally.add(done=1, frames=12, failed=3, damaged=2)
    clock.now += 1.5
    assert str(tally) == "3 utterances computed, 3 left out; 42 frames in 1.50 s"
    tally.add(resumed=4)
    tally.add(resumed=1)
    assert (tally.done, tally.failed, tally.damaged, tally.resumed, tally.frames) == (3, 3, 2, 5, 42)
    assert str(tally) == "5 were there already, 3 utterances computed, 3 left out; 42 frames in 1.50 s"


def test_elsewhere_than_on_a_terminal_a_line_comes_every_half_minute(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = UtteranceTally()
    with tally.shown():
        for seconds in (0.0, 29.0, 1.0, 29.0, 1.5):
            clock.now += seconds
            tally.add(done=1)
    assert capsys.readouterr().err.splitlines() == [
        "nnet3: 3 utterances computed, 0 left out; 0 frames in 30.00 s",
        "nnet3: 5 utterances computed, 0 left out; 0 frames in 60.50 s",
    ]


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_has_one_line_unless_results_go_there(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    tally = UtteranceTally(quiet=quiet)
    with tally.shown():
        clock.now += 100.0
        tally.add(done=1)
    shown = terminal.getvalue()
    assert ("\x1b" in shown) != quiet
    assert ("nnet3: 1 utterances computed" in shown) == quiet
    assert "1 utterances computed, 0 left out; 0 frames in 100.00 s" in shown
