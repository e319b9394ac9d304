"""Examples of sequence training (Kaldi: NnetChainExample), in files and merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nnet3.errors import TrainingError
from nnet3.model.nnet import Nnet
from nnet3.training.chain.numerator import pdf_weights
from nnet3.training.chain.supervision import ChainTarget, merge_supervisions
from nnet3.training.chain.supervision_file import TARGETS
from nnet3.training.examples.example import ExampleKind
from nnet3.training.examples.sequence_example import SequenceExample, sequence_examples
from nnet3.training.train.lda_stats import Labelled
from nnet3.training.train.minibatch import Minibatch, WantedOutput
from nnet3.training.train.to_minibatch import to_input

TOKEN = "<Nnet3ChainEg>"
_CARRIED_ALONG = "__"  # what names of inputs begin with that are not for the network


@dataclass(frozen=True, eq=False)
class ChainExample(SequenceExample[ChainTarget]):
    """Inputs, and targets of outputs."""


CHAIN_EXAMPLES: ExampleKind[ChainExample] = sequence_examples(TOKEN, ChainExample, TARGETS, merge_supervisions)
read_example, write_example = CHAIN_EXAMPLES.read, CHAIN_EXAMPLES.write
structure, describe, size = CHAIN_EXAMPLES.structure, CHAIN_EXAMPLES.describe, CHAIN_EXAMPLES.size
merge, weighted, renamed = CHAIN_EXAMPLES.merge, CHAIN_EXAMPLES.weighted, CHAIN_EXAMPLES.renamed


def chain_minibatch(example: SequenceExample[Any], input_dims: Mapping[str, int], key: str = "") -> Minibatch:
    """Returns the minibatch of an example; `input_dims`: the columns of the network's inputs. All outputs are targets.

    Raises TrainingError if the example has none of the network's inputs, one that the network does not have, one with
    another number of columns, or something twice. Inputs with names that begin with __ are left out.
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


def labelled_by_pdf(nnet: Nnet) -> Callable[[str, ChainExample], Labelled]:
    """Returns a function from an example of one sequence to the rows of `output` to compute and their pdf weights."""

    def labelled(key: str, example: ChainExample) -> Labelled:
        if len(example.outputs) != 1:
            raise TrainingError(f"a chain example of one output is expected, not of {len(example.outputs)}")
        target = example.outputs[0]
        inputs = [to_input(io, nnet.input_dims) for io in example.inputs if io.name in nnet.input_dims]
        return Minibatch(inputs, [WantedOutput("output", target.indexes)], key), pdf_weights(target.supervision)

    return labelled
