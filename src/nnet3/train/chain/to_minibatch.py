"""A chain example as a minibatch for the trainer."""

from __future__ import annotations

from collections.abc import Collection

from nnet3.errors import TrainingError
from nnet3.train.chain.example import ChainExample
from nnet3.train.examples.to_minibatch import to_input
from nnet3.train.minibatch import Minibatch

_CARRIED_ALONG = "__"  # what names of inputs begin with that are not for the network


def chain_minibatch(example: ChainExample, input_names: Collection[str], key: str = "") -> Minibatch:
    """The inputs that a network has input nodes for, and all outputs as targets.

    TrainingError if the example has none of the network's inputs, or something twice.
    """
    inputs = [
        to_input(io) for io in example.inputs if io.name in input_names and not io.name.startswith(_CARRIED_ALONG)
    ]
    if not inputs:
        given = ", ".join(io.name for io in example.inputs)
        raise TrainingError(f"the example has none of the network's inputs {', '.join(input_names)}, but {given}")
    for names in ([io.name for io in inputs], [target.name for target in example.outputs]):
        if len(set(names)) < len(names):
            raise TrainingError(f"the example has something twice: {', '.join(names)}")
    return Minibatch(inputs, example.outputs, key)
