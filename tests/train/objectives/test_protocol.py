"""Sums of statistics."""

from __future__ import annotations

from nnet3.train.objectives import ObjectiveStats


def test_sums() -> None:
    total = ObjectiveStats()
    assert (total.average, total.average_auxiliary, total.accuracy) == (0.0, 0.0, 0.0)
    for _ in range(2):
        total.add(ObjectiveStats(-3.0, -0.5, 2.0, 1.0, 4.0))
    assert (total.objective, total.average, total.average_auxiliary, total.accuracy) == (-6.0, -1.5, -0.25, 0.25)
    assert ObjectiveStats(*total.numbers()) == total
