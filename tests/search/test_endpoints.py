"""Rules for endpoints, each at its bounds."""

from __future__ import annotations

import math

import pytest

from nnet3.asr import Endpointing
from nnet3.speech.search.endpoints import trailing_silence


@pytest.mark.parametrize(
    ("rows", "trailing", "cost", "rule"),
    [
        (0, 0, 0.0, ""),
        (166, 166, math.inf, ""),
        (167, 167, math.inf, "rule1"),  # nothing was said for 5 s
        (17, 17, 0.0, ""),
        (18, 17, 2.0, "rule2"),
        (18, 16, 2.0, ""),
        (18, 17, 2.1, ""),
        (60, 34, 8.0, "rule3"),
        (60, 33, 8.0, ""),
        (60, 34, 8.1, ""),
        (90, 67, math.inf, "rule4"),
        (90, 66, math.inf, ""),
        (667, 0, math.inf, "rule5"),
        (666, 0, math.inf, ""),
    ],
)
def test_each_rule_at_its_bounds(rows: int, trailing: int, cost: float, rule: str) -> None:
    assert Endpointing().which(rows, trailing, cost) == rule


def test_silence_at_the_end_is_counted_without_a_break() -> None:
    assert trailing_silence([1, 2, 1, 1], [1]) == 2
    assert trailing_silence([1, 1, 3], [1, 3]) == 3
    assert trailing_silence([1, 2], [1]) == 0
    assert trailing_silence([], [1]) == 0
