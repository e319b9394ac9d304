"""The display: a bar on terminals, lines elsewhere, nothing from other processes."""

from __future__ import annotations

import contextlib
import io
import re

import pytest
from rich.console import Console

from nnet3.training.runs import display as module
from nnet3.training.runs.display import Display, format_seconds


def _display(*, terminal: bool, is_first: bool = True) -> tuple[Display, io.StringIO]:
    file = io.StringIO()
    return Display(Console(file=file, force_terminal=terminal, width=110, highlight=False), is_first), file


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 00 min"),
        (86399, "23 h 59 min"),
        (86400, "1 d 00 h"),
        (200, "3 min 20 s"),
        (7500, "2 h 05 min"),
        (86399.7, "1 d 00 h"),
        (273600, "3 d 04 h"),
        (86400 + 2 * 3600 - 1, "1 d 01 h"),
        (3600 + 120 - 1, "1 h 01 min"),
    ],
)
def test_times_are_shown_in_the_fitting_unit(seconds: float, shown: str) -> None:
    assert format_seconds(seconds) == shown


def test_without_a_terminal_lines_have_a_date() -> None:
    display, file = _display(terminal=False)
    with display.showing(0.0):
        display.update(0.1, 100, "1/2", -0.5)
        display.line("train", "train step=1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d train step=1\n", file.getvalue())


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "perf_counter", lambda: now)
    display, file = _display(terminal=True)
    with display.showing(0.2):
        now = 110.0
        display.update(0.25, 2000, "1/4", None)
        display.update(0.3, 3000, "1/4", -0.51234)
        assert display.frames_per_second == 500
        assert display.seconds_left(0.3) == pytest.approx(70)
        display.line("train", "train step=1")
        display.line("valid", "valid step=1")
    shown = file.getvalue()
    assert "epoch 1/4" in shown
    assert "objective -0.5123" in shown
    assert "500 frames/s" in shown
    assert "1 min 10 s left" in shown
    assert "valid step=1" in shown
    assert "train step=1" not in shown
    assert "starting" in shown
    assert " 30%" in shown
    assert (
        max(len(bar) for bar in re.findall("[━╸╺]+", re.sub(r"\x1b\[[\d;]*m", "", shown))) > 40
    )  # all there is room for
    assert shown.endswith("\x1b[2K")  # the bar is taken away
    display.update(0.4, 1000, "1/4", None)  # nothing is shown outside
    assert file.getvalue() == shown
    assert display.frames_per_second == 600


def test_a_part_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "perf_counter", lambda: now)
    display, _ = _display(terminal=False)
    display.update(0.1, 1000, "1/2", None)
    now = 200.0
    with display.showing(0.5):
        now = 210.0
        display.update(0.75, 500, "2/2", None)
        assert display.frames_per_second == 50
        assert display.seconds_left(0.75) == 10
        assert display.seconds_left(0.5) is None


def test_by_default_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    Display().line("valid", "valid step=1")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith(" valid step=1\n")


@pytest.mark.parametrize("text", ["valid " + 200 * "x", "[bold]valid step=1 :warning:"])
def test_lines_on_a_terminal_are_as_in_the_log(text: str) -> None:
    """Neither wrapped nor taken for markup."""
    display, file = _display(terminal=True)
    display.line("other", text)
    assert file.getvalue() == f"{text}\n"
    display.line("valid", text)
    assert f"\x1b[32m{text}\x1b[0m\n" in file.getvalue()


def test_other_processes_are_silent() -> None:
    for terminal in (True, False):
        display, file = _display(terminal=terminal, is_first=False)
        with display.showing(0.0):
            display.update(0.1, 100, "1/2", None)
            display.line("valid", "valid step=1")
        assert file.getvalue() == ""


def test_nothing_done_yet() -> None:
    display, _ = _display(terminal=False)
    assert display.seconds_left(0.0) is None


def test_who_cannot_see_the_lines_loses_nothing_else() -> None:
    for terminal in (False, True):
        with open("/dev/full", "w", buffering=1) as full:
            display = Display(Console(file=full, force_terminal=terminal))
            display.line("epoch", "epoch step=3")
            display.line("epoch", "epoch step=4")
            display.update(0.5, 100, "1", -1.0)
            assert display.seconds_left(0.5) is not None
            with contextlib.suppress(OSError):
                full.close()
