"""Chain examples as what statistics for LDA are gathered of."""

from __future__ import annotations

from collections.abc import Callable

from nnet3.chain.example import ChainExample
from nnet3.chain.numerator import pdf_weights
from nnet3.errors import TrainingError
from nnet3.nnet import Nnet
from nnet3.train.lda_stats import Labelled
from nnet3.train.minibatch import Minibatch, WantedOutput
from nnet3.train.to_minibatch import to_input


def labelled_by_pdf(nnet: Nnet) -> Callable[[str, ChainExample], Labelled]:
    """Returns what makes of an example of one sequence the rows of `output` to compute, and their pdfs' weights."""

    def labelled(key: str, example: ChainExample) -> Labelled:
        if len(example.outputs) != 1:
            raise TrainingError(f"a chain example of one output is expected, not of {len(example.outputs)}")
        target = example.outputs[0]
        inputs = [to_input(io, nnet.input_dims) for io in example.inputs if io.name in nnet.input_dims]
        return Minibatch(inputs, [WantedOutput("output", target.indexes)], key), pdf_weights(target.supervision)

    return labelled
