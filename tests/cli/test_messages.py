"""Messages: one line each, with nothing in them that steers a terminal."""

from __future__ import annotations

import logging
import warnings

import pytest

from nnet3.cli.messages import plain_warnings, print_warnings, say, verbosity

LOG = logging.getLogger("nnet3")


def test_what_files_hold_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("a \x1b[31m\tb\nc é")
    assert capsys.readouterr().err == "nnet3: a \N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b\nc é\n"
    print_warnings(["one", "two"])
    assert capsys.readouterr().err == "nnet3: warning: one\nnnet3: warning: two\n"


@pytest.mark.filterwarnings("always")
def test_what_the_library_warns_of_and_logs_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    handlers, shower = [*LOG.handlers], warnings.showwarning
    with plain_warnings():
        warnings.warn("strange", RuntimeWarning, stacklevel=1)
        LOG.error("%d bad", 3)
        LOG.debug("not said")
    assert capsys.readouterr().err == "nnet3: warning: strange\nnnet3: error: 3 bad\n"
    assert (LOG.handlers, warnings.showwarning) == (handlers, shower)


@pytest.mark.parametrize(("level", "said"), [(0, False), (-1, False), (1, True), (3, True)])
def test_more_is_said_from_1_on(capsys: pytest.CaptureFixture[str], level: int, said: bool) -> None:
    before = LOG.level
    with plain_warnings(), verbosity(level):
        LOG.debug("a detail")
    assert capsys.readouterr().err == ("nnet3: debug: a detail\n" if said else "")
    assert LOG.level == before
