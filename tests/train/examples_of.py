"""Minibatches of training examples as Kaldi stores them."""

from __future__ import annotations

from pathlib import Path

from nnet3.examples import EXAMPLES, ExampleReader
from nnet3.model.nnet import Nnet
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.to_minibatch import to_minibatch


def read_minibatches(path: Path, nnet: Nnet) -> list[Minibatch]:
    """All merged examples of an archive."""
    with ExampleReader(f"ark:{path}", EXAMPLES) as examples:
        return [to_minibatch(example, nnet.input_dims, nnet.output_dims, key) for key, example in examples]
