"""Archives of training examples as minibatches, for verbs that compute on them."""

from __future__ import annotations

from collections.abc import Iterator

from nnet3.nnet import Nnet
from nnet3.train.examples import EXAMPLES, ExampleReader
from nnet3.train.examples.to_minibatch import to_minibatch
from nnet3.train.minibatch import Minibatch


def minibatches(rspecifier: str, nnet: Nnet) -> Iterator[Minibatch]:
    """Each (merged) example of a table as a minibatch for this network."""
    with ExampleReader(rspecifier, EXAMPLES) as examples:
        for key, example in examples:
            yield to_minibatch(example, nnet.input_names, nnet.output_names, key)
