"""How a process begins and ends: which arguments and name it has, signals that end it."""

from __future__ import annotations

import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from nnet3.cli import entry, later
from nnet3.cli.verb import find_program
from nnet3.cli.verb_table import VERBS
from tests.patience import PATIENCE

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[list[str], str]]]:
    """What would have been run: arguments and program. Its status is 3."""
    calls: list[tuple[list[str], str]] = []

    def run(arguments: list[str], program: str) -> int:
        calls.append((arguments, program))
        return 3

    monkeypatch.setattr(later, "run", SimpleNamespace(run=run))
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield calls
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_arguments_of_the_process(ran: list[tuple[list[str], str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/bin/nnet3", "info", "x"])
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == 3
    assert ran == [(["info", "x"], "nnet3")]


def test_arguments_that_are_given(ran: list[tuple[list[str], str]]) -> None:
    """Python goes on after them: its signals are as they were."""
    before = [signal.getsignal(number) for number in NUMBERS]
    with pytest.raises(SystemExit) as end:
        entry.main(("info", "x"))
    assert end.value.code == 3
    assert ran == [(["info", "x"], "nnet3")]
    assert [signal.getsignal(number) for number in NUMBERS] == before


@pytest.mark.parametrize("path", ["nnet3-copy", "/usr/bin/nnet3-copy", "C/nnet3-copy.exe", "bin/nnet3-copy.py"])
def test_the_name_of_a_program(ran: list[tuple[list[str], str]], monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr("sys.argv", [path, "a", "b"])
    with pytest.raises(SystemExit):
        entry.kaldi_program()
    assert ran == [(["a", "b"], "nnet3-copy")]


def test_each_program_of_kaldi_finds_its_verb(
    ran: list[tuple[list[str], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = [listed.program for listed in VERBS.values() if listed.program]
    assert "choose_features.py" in programs
    for program in programs:
        monkeypatch.setattr("sys.argv", [f"/usr/bin/{program}"])
        with pytest.raises(SystemExit):
            entry.kaldi_program()
        found = find_program(ran.pop()[1])
        assert found is not None
        assert VERBS[found.name].program == program


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_process_as_an_exit_does_once(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(arguments: list[str], program: str) -> int:
        with pytest.raises(SystemExit) as end:
            signal.raise_signal(number)
        assert end.value.code == 128 + number
        assert signal.getsignal(number) == signal.SIG_DFL
        return 3

    monkeypatch.setattr(later, "run", SimpleNamespace(run=run))
    monkeypatch.setattr("sys.argv", ["nnet3"])
    signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == 3
    assert [signal.getsignal(each) for each in NUMBERS] == [signal.SIG_IGN] * len(NUMBERS)  # it is too late for that


def _call_back(error: Callable[[], object]) -> None:
    """Call a function as Python does it when an object goes: what it raises is ignored."""
    thing = threading.Event()
    reference = weakref.ref(thing, lambda _: error())
    del thing
    assert reference() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_callback_ends_a_process_a_moment_later_without_a_word(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(arguments: list[str], program: str) -> int:
        _call_back(lambda: signal.raise_signal(number))
        threading.Event().wait(PATIENCE)
        return 3

    monkeypatch.setattr(later, "run", SimpleNamespace(run=run))
    monkeypatch.setattr("sys.argv", ["nnet3"])
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises((KeyboardInterrupt, SystemExit)) as end:
        entry.main()
    assert end.type is KeyboardInterrupt if number == signal.SIGINT else end.value.args == (128 + number,)
    assert capfd.readouterr().err == ""


def test_errors_in_callbacks_are_printed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def run(arguments: list[str], program: str) -> int:
        _call_back(lambda: {}["missing"])
        return 3

    monkeypatch.setattr(later, "run", SimpleNamespace(run=run))
    monkeypatch.setattr("sys.argv", ["nnet3"])
    with pytest.raises(SystemExit):
        entry.main()
    assert "KeyError: 'missing'" in capfd.readouterr().err


def test_what_is_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for what nohup or a shell has started in the background."""
    monkeypatch.setattr("sys.argv", ["nnet3"])
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)
    with pytest.raises(SystemExit):
        entry.main()
    assert [signal.getsignal(number) for number in NUMBERS] == [signal.SIG_IGN] * len(NUMBERS)
