"""A chain example as a minibatch for the trainer."""

from __future__ import annotations

from collections.abc import Mapping

from nnet3.chain.example import ChainExample
from nnet3.errors import TrainingError
from nnet3.train.minibatch import Minibatch
from nnet3.train.to_minibatch import to_input

_CARRIED_ALONG = "__"  # what names of inputs begin with that are not for the network


def chain_minibatch(example: ChainExample, input_dims: Mapping[str, int], key: str = "") -> Minibatch:
    """The inputs of an example, and all outputs as targets; `input_dims`: the columns of the network's inputs.

    TrainingError if the example has none of the network's inputs, one that the network does not have, one of another
    number of columns, or something twice. Inputs with names that begin with __ are left out.
    """
    given = [io for io in example.inputs if not io.name.startswith(_CARRIED_ALONG)]
    names = ", ".join(io.name for io in given)
    if not any(io.name in input_dims for io in given):
        raise TrainingError(f"the example has none of the network's inputs {', '.join(input_dims)}, but {names}")
    if any(io.name not in input_dims for io in given):
        raise TrainingError(f"the example has the inputs {names}, but the network has {', '.join(input_dims)}")
    for found in ([io.name for io in given], [target.name for target in example.outputs]):
        if len(set(found)) < len(found):
            raise TrainingError(f"the example has something twice: {', '.join(found)}")
    return Minibatch([to_input(io, input_dims) for io in given], example.outputs, key)
