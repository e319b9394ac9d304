"""Verbs that determinize lattices: their defaults and bounds, and options without effect."""

from __future__ import annotations

import pytest

from tests.cli.check_options import check_ignored, check_options

WHOLE = ["lattice-determinize", "lattice-determinize-non-compact"]
PRUNED = ["lattice-determinize-pruned", "lattice-determinize-phone-pruned"]


@pytest.mark.parametrize("verb", [*WHOLE, *PRUNED])
def test_all_compare_paths_within_a_beam(verb: str) -> None:
    check_options(
        verb,
        {
            "--acoustic-scale": (1.0, None),
            "--beam": (10.0, None),
            "--minimize": (False, None),
            "--max-mem": (50000000, 1),
        },
    )
    check_ignored(verb, "--max-loop=3", "--max-arcs=3", "--max-states=3")


@pytest.mark.parametrize("verb", WHOLE)
def test_whole_lattices_are_pruned_on_demand(verb: str) -> None:
    check_options(verb, {"--prune": (False, None), "--beam-ratio": (0.9, None), "--num-loops": (20, 1)})


def test_phones_come_before_words() -> None:
    check_options(PRUNED[1], {"--phone-determinize": (True, None), "--word-determinize": (True, None)})
