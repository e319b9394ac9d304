"""What verbs of sequence training read: denominator graphs, and chain examples as minibatches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nnet3.cli.egs_minibatches import minibatches_of
from nnet3.nnet import Nnet
from nnet3.train.chain import CHAIN_EXAMPLES, ChainObjective, ChainOptions, chain_minibatch
from nnet3.train.chain.load_denominator import load_denominator
from nnet3.train.minibatch import Minibatch


def load_objective(
    den_fst: str,
    nnet: Nnet,
    leaky_hmm_coefficient: float,
    options: Mapping[str, float],
    apply_deriv_weights: bool = True,
) -> ChainObjective:
    """The objective with the graph in a file; `options` are those of `ChainOptions`."""
    denominator = load_denominator(den_fst, nnet, leaky_hmm_coefficient)
    return ChainObjective(denominator, ChainOptions(**options), apply_deriv_weights)


def minibatches(rspecifier: str, nnet: Nnet) -> Iterator[Minibatch]:
    """Each (merged) example of a table as a minibatch for this network."""
    inputs = nnet.input_dims
    return minibatches_of(rspecifier, CHAIN_EXAMPLES, lambda example, key: chain_minibatch(example, inputs, key))
