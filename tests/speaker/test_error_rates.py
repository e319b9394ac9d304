"""Equal error rate and detection cost against loops over thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.errors import Nnet3Error
from nnet3.speech.speaker.error_rates import detection_cost, equal_error_rate

SCORES = st.lists(st.integers(-5, 5), min_size=1, max_size=30)


@given(targets=SCORES, others=SCORES)
def test_the_equal_error_rate_is_where_the_shares_meet(targets: list[int], others: list[int]) -> None:
    rising, falling = sorted(targets), sorted(others, reverse=True)
    found = len(rising) - 1
    for place in range(len(rising)):
        if falling[min(len(falling) * place // len(rising), len(falling) - 1)] < rising[place]:
            found = place
            break
    rate, threshold = equal_error_rate(np.array(targets, float), np.array(others, float))
    assert (rate, threshold) == (found / len(rising), rising[found])


@given(targets=SCORES, others=SCORES, share=st.sampled_from([0.01, 0.3, 0.9]), miss=st.sampled_from([1.0, 10.0]))
def test_the_detection_cost_is_the_least_of_all_thresholds(
    targets: list[int], others: list[int], share: float, miss: float
) -> None:
    scores = np.array(targets + others, float)
    is_target = np.arange(len(scores)) < len(targets)
    cost, threshold = detection_cost(scores, is_target, share, miss)
    order = np.argsort(scores, kind="stable")
    costs = []
    for count in range(1, len(scores) + 1):
        rejected = is_target[order[:count]]
        misses, alarms = rejected.sum() / len(targets), 1 - (~rejected).sum() / len(others)
        costs.append(miss * misses * share + alarms * (1 - share))
    assert cost == pytest.approx(min(costs) / min(miss * share, 1 - share))
    assert threshold in scores


def test_scores_that_tell_all_apart() -> None:
    targets, others = np.array([2.0, 3.0, 4.0]), np.array([-1.0, 0.0])
    assert equal_error_rate(targets, others) == (0.0, 2.0)
    assert detection_cost(np.concatenate([targets, others]), np.array([1, 1, 1, 0, 0], bool)) == (0.0, 0.0)


def test_both_kinds_of_trials_are_needed() -> None:
    some, none = np.array([1.0]), np.zeros(0)
    with pytest.raises(Nnet3Error, match="no target trials"):
        equal_error_rate(none, some)
    with pytest.raises(Nnet3Error, match="no other trials"):
        detection_cost(some, np.array([True]))
    for one, other in ((some, np.array([2.0, np.nan])), (np.array([np.nan, 1.0]), some)):
        with pytest.raises(Nnet3Error, match="a NaN"):
            equal_error_rate(one, other)
    for wrong in (None, "x", ["a"], [[1.0]], 3.0):
        with pytest.raises(Nnet3Error, match="scores must be "):
            equal_error_rate(wrong, some)  # type: ignore[arg-type]
    for flags in ([1], [True, False], None):
        with pytest.raises(Nnet3Error, match="is_target must be 1 truth values"):
            detection_cost(some, flags)  # type: ignore[arg-type]
