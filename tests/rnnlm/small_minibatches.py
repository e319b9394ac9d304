"""Small random minibatches of RNNLM training."""

from __future__ import annotations

import numpy as np

from nnet3.training.rnnlm.example import RnnlmExample

WORDS, CHUNKS, LENGTH, GROUP, SAMPLES = 11, 3, 4, 2, 7


def minibatch(rng: np.random.Generator, *, sampled: bool) -> RnnlmExample:
    """Returns a minibatch of random words and weights, some of them 0."""
    places = CHUNKS * LENGTH
    groups = LENGTH // GROUP
    words = np.stack([np.sort(rng.permutation(np.arange(1, WORDS))[:SAMPLES]) for _ in range(groups)]).astype(np.int32)
    nothing = np.zeros(0)
    return RnnlmExample(
        *(WORDS, CHUNKS, LENGTH, GROUP if sampled else 1, SAMPLES),
        rng.integers(1, WORDS, places).astype(np.int32),
        rng.integers(0 if sampled else 1, SAMPLES if sampled else WORDS, places).astype(np.int32),
        rng.choice([0, 0.5, 1], places).astype(np.float32),
        words.ravel() if sampled else nothing.astype(np.int32),
        rng.uniform(1, 3, words.size).astype(np.float32) if sampled else nothing.astype(np.float32),
    )
