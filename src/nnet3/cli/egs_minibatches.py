"""Archives of training examples as minibatches, for verbs that compute on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from nnet3.cli.files import save_model
from nnet3.cli.messages import say
from nnet3.errors import TrainingError
from nnet3.examples import EXAMPLES, ExampleKind, ExampleReader
from nnet3.nnet import Nnet
from nnet3.train.compute_prob import gradient_lines
from nnet3.train.minibatch import Minibatch
from nnet3.train.to_minibatch import to_minibatch

E = TypeVar("E")


def minibatches(rspecifier: str, nnet: Nnet) -> Iterator[Minibatch]:
    """Each (merged) example of a table as a minibatch for this network."""
    inputs, outputs = nnet.input_dims, nnet.output_dims
    return minibatches_of(rspecifier, EXAMPLES, lambda example, key: to_minibatch(example, inputs, outputs, key))


def minibatches_of(
    rspecifier: str, kind: ExampleKind[E], prepare: Callable[[E, str], Minibatch]
) -> Iterator[Minibatch]:
    """Each example of a table with what `prepare` makes of it and its key. Its errors say which one it is."""
    with ExampleReader(rspecifier, kind) as examples:
        for key, example in examples:
            try:
                made = prepare(example, key)
            except TrainingError as error:
                raise TrainingError(f"{rspecifier}: the entry '{key}': {error}") from None
            yield made


def report_gradient(gradient: Nnet | None, output: str) -> None:
    """Prints the norms of a gradient, if there is one, and writes it if `output` is a name."""
    if gradient is None:
        return
    for line in gradient_lines(gradient):
        say(line)
    if output:
        save_model(gradient, output, True)
