"""Priors of pdfs: the mean posterior over training examples."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from nnet3.errors import TrainingError
from nnet3.model.nnet import Nnet
from nnet3.training.train.evaluation import ExampleOutputs
from nnet3.training.train.minibatch import Minibatch


def normalised(counts: ArrayLike) -> np.ndarray:
    """Returns summed posteriors (pdfs,) as priors (pdfs,) float32 with sum one.

    Raises TrainingError for counts that are negative, not finite, or all zero.
    """
    values = np.asarray(counts, np.float64)
    if not np.isfinite(values).all() or (values < 0).any() or values.sum() <= 0:
        raise TrainingError("posteriors must be finite, not negative, and not all zero")
    return (values / values.sum()).astype(np.float32)


def mean_posterior(nnet: Nnet, minibatches: Iterable[Minibatch], most_sequences: int) -> np.ndarray:
    """Returns the mean of the probabilities that `output` computes in test mode, (pdfs,) float32.

    Reads minibatches up to `most_sequences` sequences. Raises TrainingError without a minibatch.
    """
    outputs, total, seen = ExampleOutputs(nnet.in_test_mode()), np.zeros(nnet.node_dim("output")), 0
    for minibatch in minibatches:
        if seen >= most_sequences:
            break
        rows = outputs.compute(minibatch).get("output")
        if rows is not None:
            total += rows.double().exp().sum(0).cpu().numpy()
            seen += minibatch.num_sequences
    if seen == 0:
        raise TrainingError("there are no training examples with an 'output' to compute priors on")
    return normalised(total)
