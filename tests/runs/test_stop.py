"""Signals that ask to stop."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from nnet3.training.runs.stop import StopRequest


def _send(number: int) -> None:
    os.kill(os.getpid(), number)


def test_the_first_one_is_remembered_and_the_second_one_ends() -> None:
    stop = StopRequest()
    with stop.listening():
        assert stop.number == 0
        _send(signal.SIGTERM)
        assert stop.number == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            _send(signal.SIGINT)
        with pytest.raises(SystemExit) as error:
            _send(signal.SIGTERM)
        assert error.value.code == 143


def test_when_all_is_saved_the_first_one_ends() -> None:
    stop = StopRequest()
    with stop.listening():
        stop.at_once = True
        with pytest.raises(SystemExit) as error:
            _send(signal.SIGTERM)
        assert error.value.code == 143
        with pytest.raises(KeyboardInterrupt):
            _send(signal.SIGINT)
        assert stop.number == 0


def test_handlers_are_put_back() -> None:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    with contextlib.suppress(KeyError), StopRequest().listening():
        assert all(signal.getsignal(number) is not own for number, own in zip(numbers, before, strict=True))
        raise KeyError
    assert [signal.getsignal(number) for number in numbers] == before
