"""Learning rates fall with each minibatch, in equal ratios."""

from __future__ import annotations

import pytest

from nnet3.errors import TrainingError
from nnet3.train import exponential_rate


def test_equal_ratios() -> None:
    rates = [exponential_rate(0.01, 0.0001, done / 4) for done in range(5)]
    assert rates == pytest.approx([0.01 * 10 ** (-k / 2) for k in range(5)])


@pytest.mark.parametrize(("first", "last"), [(0.0, 1.0), (1.0, -1.0)])
def test_rates_that_cannot_be_meant(first: float, last: float) -> None:
    with pytest.raises(TrainingError, match="learning rates must be > 0"):
        exponential_rate(first, last, 0.5)
