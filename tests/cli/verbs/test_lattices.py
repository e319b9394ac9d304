"""Verbs of lattices: their options, and scales that contradict each other."""

from __future__ import annotations

import pytest

from tests.cli.check_options import check_options
from tests.cli.run_command import Cli


def test_scales_have_defaults() -> None:
    both = {"--acoustic-scale": (1.0, None), "--lm-scale": (1.0, None)}
    check_options("lattice-1best", both | {"--word-ins-penalty": (0.0, None)})
    check_options("lattice-to-nbest", both | {"--n": (1, 1)})
    mixing = {"--inv-acoustic-scale": (1.0, None), "--acoustic2lm-scale": (0.0, None)}
    check_options("lattice-scale", both | mixing)


@pytest.mark.parametrize("verb", ["lattice-push", "lattice-minimize"])
def test_ids_and_costs_are_pushed_unless_told_otherwise(verb: str) -> None:
    check_options(verb, {"--push-strings": (True, None), "--push-weights": (True, None)})


@pytest.mark.parametrize("scales", [("--inv-acoustic-scale=0",), ("--acoustic-scale=2", "--inv-acoustic-scale=0.5")])
def test_acoustic_costs_have_one_scale(cli: Cli, scales: tuple[str, ...]) -> None:
    outcome = cli("lattice-scale", *scales, "ark:lat", "ark:out")
    assert outcome.status == 2
    assert "give --acoustic-scale, or an --inv-acoustic-scale that is not 0" in outcome.err
