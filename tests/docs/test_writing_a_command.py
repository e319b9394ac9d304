"""docs/writing_a_command.md does what it says, and leaves nothing behind."""

from __future__ import annotations

from nnet3.engine.ir.declarations import COMMAND_CLASSES
from nnet3.engine.runtime.calls import CALLS
from tests.docs.shown_page import run_shown_page
from tests.own_commands import forgotten_after


def test_the_page_does_what_it_says() -> None:
    with forgotten_after():
        names, shown = run_shown_page("writing_a_command.md")
        assert shown == 7
        assert COMMAND_CLASSES["MatrixProduct"] is names["MatrixProduct"]


def test_the_page_leaves_nothing_behind() -> None:
    assert "MatrixProduct" not in COMMAND_CLASSES
    assert "product" not in CALLS
