"""Statistics for LDA of the outputs that a network has for examples, by the classes of their supervision."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from nnet3.errors import TrainingError
from nnet3.examples.example import Example
from nnet3.kaldi_io.sparse import SparseMatrix, sparse_of
from nnet3.nnet import Nnet
from nnet3.train.evaluation import ExampleOutputs
from nnet3.train.lda_stats import LdaStats, pruned
from nnet3.train.minibatch import Minibatch
from nnet3.train.to_minibatch import to_unlabelled

_SEED = 0
Labelled = tuple[Minibatch, SparseMatrix]  # what to compute, and the class weights of the rows of `output`


def labelled_by_class(nnet: Nnet) -> Callable[[str, Example], Labelled]:
    """Returns what makes of an example and its key the rows of `output` to compute, and their class weights."""
    inputs, names = nnet.input_dims, nnet.output_names

    def labelled(key: str, example: Example) -> Labelled:
        weights = next((io.matrix for io in example.ios if io.name == "output"), None)
        if weights is None:
            raise TrainingError("there is no 'output' in the example")
        return to_unlabelled(example.ios, inputs, names, key), sparse_of(weights)

    return labelled


def accumulated(nnet: Nnet, examples: Iterable[Labelled], rand_prune: float) -> tuple[LdaStats | None, int]:
    """Returns statistics of the network's `output`, None without any weight, and the number of examples.

    Weights below `rand_prune` become that or 0, at random.
    """
    computer, rng, total, count = ExampleOutputs(nnet), np.random.default_rng(_SEED), None, 0
    for minibatch, weights in examples:
        features = computer.compute(minibatch)["output"].cpu().numpy()
        own = LdaStats.of_rows(features, pruned(weights, rand_prune, rng))
        total = own if total is None else total + own
        count += 1
    return (None if total is None or total.zero.sum() == 0 else total), count
