"""docs/writing_a_command.md does what it says, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nnet3.ir.declarations import COMMAND_CLASSES
from nnet3.runtime.calls import CALLS
from nnet3.runtime.rules import RULES
from tests.docs.shown_page import run_shown_page


@pytest.fixture
def own_commands() -> Iterator[None]:
    """Commands, rules and calls that a page registers are forgotten after it."""
    registries: list[dict] = [COMMAND_CLASSES, RULES, CALLS]
    known = [dict(registry) for registry in registries]
    yield
    for registry, before in zip(registries, known, strict=True):
        registry.clear()
        registry.update(before)


@pytest.mark.usefixtures("own_commands")
def test_the_page_does_what_it_says() -> None:
    names, shown = run_shown_page("writing_a_command.md")
    assert shown == 6
    assert COMMAND_CLASSES["MatrixProduct"] is names["MatrixProduct"]


def test_the_page_leaves_nothing_behind() -> None:
    assert "MatrixProduct" not in COMMAND_CLASSES
    assert "product" not in CALLS
