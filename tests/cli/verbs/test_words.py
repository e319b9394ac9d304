"""Verbs of the words of lattices: their options, and what they refuse."""

from __future__ import annotations

import pytest

from tests.cli.check_options import check_options
from tests.cli.run_command import Cli


def test_options_have_kaldis_defaults() -> None:
    both = {"--acoustic-scale": (1.0, None), "--lm-scale": (1.0, None)}
    check_options("lattice-to-ctm-conf", both | {"--inv-acoustic-scale": (1.0, None), "--confidence-digits": (2, 0)})
    check_options("lattice-arc-post", both | {"--min-post": (0.0001, None)})
    check_options("lattice-align-words", {"--silence-label": (0, None), "--partial-word-label": (0, None)})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lattice-to-ctm-conf", "ark:lat"), "give a table of lattices and the file to write"),
        (("lattice-to-ctm-conf", "--inv-acoustic-scale=0", "ark:lat", "ctm"), "--inv-acoustic-scale that is not 0"),
        (("lattice-align-words", "--reorder=false", "a", "b", "c", "d"), "--reorder=false"),
        (("lattice-align-phones", "--remove-epsilon=false", "a", "b", "c"), "--remove-epsilon=false: arcs without"),
        (("lattice-arc-post", "a", "b", "c", "d"), "a model may come before them"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    outcome = cli(*arguments)
    assert (outcome.status, message in outcome.err) == (2, True), outcome.err


@pytest.mark.parametrize("verb", ["lattice-depth", "lattice-mbr-decode", "lattice-to-post", "nbest-to-ctm"])
def test_tables_that_cannot_be_read(cli: Cli, verb: str) -> None:
    outcome = cli(verb, "ark:none", "ark:out")
    assert (outcome.status, "none" in outcome.err) == (1, True)


def test_times_go_to_a_file(cli: Cli) -> None:
    assert "ark:out: expected a file such as 1.ctm" in cli("lattice-to-ctm-conf", "ark:lat", "ark:out").err
