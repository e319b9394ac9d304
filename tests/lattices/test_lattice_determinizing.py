"""Lattices of tables, determinized and pruned; the programs with their options are tested in tests/cli."""

from __future__ import annotations

import pytest

from nnet3.base.options.lattices import LatticePruningOptions, PrunedDeterminizingOptions, WholeDeterminizingOptions
from nnet3.speech.lattices.lattice_determinizing import determinized_whole, determinized_within, pruned
from tests.asr.slow_search import paths_of
from tests.asr.toy_lattices import random_lattice


def test_whole_or_within_a_wide_beam_are_the_same_paths() -> None:
    given = random_lattice(rows=3).labelled().lattice().plain()
    best = {words: min(paths)[0] for words, paths in paths_of(given).items()}
    whole, notices = determinized_whole(given, WholeDeterminizingOptions())
    within, others = determinized_within(given, PrunedDeterminizingOptions(beam=1000))
    assert notices == others == []
    for found in (whole, within):
        assert {words: cost for words, [(cost, _)] in paths_of(found).items()} == pytest.approx(best, abs=1e-4)


def test_pruned_is_what_lies_within_the_beam() -> None:
    given = random_lattice(rows=3).labelled().lattice()
    costs = sorted(cost for paths in paths_of(given).values() for cost, _ in paths)
    found = sorted(
        cost for paths in paths_of(pruned(given, LatticePruningOptions(beam=2.0))).values() for cost, _ in paths
    )
    within = [cost for cost in costs if cost <= costs[0] + 2.0 - 1e-4]
    assert len(found) >= len(within)
    assert found[: len(within)] == pytest.approx(within)
    assert len(found) < len(costs) or len(within) == len(costs)
