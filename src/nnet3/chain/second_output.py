"""The second output of a chain network, from which log-probabilities are learnt."""

from __future__ import annotations

from nnet3.chain.load_denominator import OUTPUT
from nnet3.chain.objective import ChainObjective
from nnet3.nnet import Nnet
from nnet3.options import ChainOptions


def with_second_output(objective: ChainObjective, nnet: Nnet) -> ChainObjective:
    """The same, but looking at the output `output-xent` too if the network has one."""
    if f"{OUTPUT}-xent" not in nnet.output_names:
        return objective
    return ChainObjective(objective.denominator, ChainOptions(xent_regularize=1.0))
