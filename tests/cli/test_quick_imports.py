"""Modules that are imported when they are first used."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from nnet3.cli.quick_imports import INTERRUPTED, ending_at_once, import_quickly


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a module that notes what is the case while it is imported."""
    (tmp_path / "a_module_of_its_own.py").write_text(
        "import gc, signal\nwas_collecting = gc.isenabled()\nhandler = signal.getsignal(signal.SIGINT)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    return "a_module_of_its_own"


def test_modules_are_imported_without_collecting_garbage(name: str) -> None:
    assert import_quickly(name).was_collecting is False
    assert gc.isenabled()
    gc.unfreeze()
    assert import_quickly(name) is sys.modules[name]


def test_a_module_that_cannot_be_imported_leaves_all_as_it_was(name: str) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ModuleNotFoundError):
        import_quickly(f"{name}_not")
    assert gc.isenabled()
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_meanwhile_ends_the_process_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)
    before = signal.getsignal(signal.SIGINT)
    with ending_at_once():
        signal.raise_signal(signal.SIGINT)
    assert ends == [INTERRUPTED] == [130]
    assert signal.getsignal(signal.SIGINT) is before
    module = import_quickly(name)
    gc.unfreeze()
    assert module.handler is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_who_ignores_interrupts_goes_on_ignoring_them() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ending_at_once():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_has_no_signals() -> None:
    seen: list[object] = []

    def work() -> None:
        with ending_at_once():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
