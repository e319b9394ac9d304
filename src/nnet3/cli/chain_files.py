"""Reads denominator graphs, and chain examples as minibatches."""

from __future__ import annotations

from collections.abc import Iterator

from nnet3.chain import CHAIN_EXAMPLES, ChainObjective, chain_minibatch
from nnet3.chain.denominator import load_denominator
from nnet3.cli.egs_minibatches import minibatches_of
from nnet3.nnet import Nnet
from nnet3.options import ChainOptions, DenominatorOptions
from nnet3.train.minibatch import Minibatch


def load_objective(
    den_fst: str,
    nnet: Nnet,
    denominator: DenominatorOptions,
    objective: ChainOptions,
    apply_deriv_weights: bool = True,
) -> ChainObjective:
    """The objective with the graph in a file."""
    loaded = load_denominator(den_fst, nnet, denominator.leaky_hmm_coefficient, insist=denominator.insist_on_den_fst)
    return ChainObjective(loaded, objective, apply_deriv_weights)


def minibatches(rspecifier: str, nnet: Nnet) -> Iterator[Minibatch]:
    """Each (merged) example of a table as a minibatch for this network."""
    inputs = nnet.input_dims
    return minibatches_of(rspecifier, CHAIN_EXAMPLES, lambda example, key: chain_minibatch(example, inputs, key))
