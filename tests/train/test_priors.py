"""Priors: normalised sums, and means of posteriors in test mode."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import TrainingError
from nnet3.training.train.priors import normalised


def test_priors_sum_to_one() -> None:
    priors = normalised([1.0, 0.0, 3.0])
    assert priors.tolist() == [0.25, 0.0, 0.75]
    assert priors.dtype == np.float32


@pytest.mark.parametrize("counts", [[0.0, 0.0], [1.0, -1.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_counts_that_make_no_priors(counts: list[float]) -> None:
    with pytest.raises(TrainingError, match="finite, not negative, and not all zero"):
        normalised(counts)
