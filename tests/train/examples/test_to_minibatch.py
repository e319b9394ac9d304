"""Examples for the trainer."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import TrainingError
from nnet3.kaldi_io import SparseMatrix, compress
from nnet3.kaldi_io.general import dense
from nnet3.train.examples import EXAMPLES, Example, NnetIo
from nnet3.train.examples.to_minibatch import to_minibatch
from nnet3.train.minibatch import MatrixTarget
from train.example_data import frame_example, grid


def test_what_the_network_has_nodes_for() -> None:
    ivector = NnetIo("ivector", grid(1, np.arange(1)), compress(np.ones((1, 2))))
    other = NnetIo("other", grid(1, np.arange(2)), np.zeros((2, 2), np.float32))
    example = EXAMPLES.merge([frame_example(np.random.default_rng(0), ivector=ivector, other=other)] * 3)
    minibatch = to_minibatch(example, ["input", "ivector"], ["output", "other"], "key")
    assert [given.name for given in minibatch.inputs] == ["input", "ivector"]
    assert minibatch.inputs[1].matrix.tolist() == [[1, 1]] * 3
    targets = {target.name: target for target in minibatch.targets}
    assert isinstance(targets["output"], MatrixTarget)
    assert isinstance(targets["output"].matrix, SparseMatrix)
    output = example.io("output")
    assert output is not None
    np.testing.assert_array_equal(targets["output"].dense(), dense(output.matrix))
    assert isinstance(targets["other"], MatrixTarget)
    assert targets["other"].dense().shape == (6, 2)
    assert (minibatch.key, minibatch.num_sequences) == ("key", 3)


def test_examples_that_do_not_fit() -> None:
    example = frame_example(np.random.default_rng(0))
    with pytest.raises(TrainingError, match="none of the network's outputs pdf, but input, output"):
        to_minibatch(example, ["input"], ["pdf"])
    with pytest.raises(TrainingError, match="none of the network's inputs x"):
        to_minibatch(example, ["x"], ["output"])
    with pytest.raises(TrainingError, match="an output twice"):
        to_minibatch(Example((*example.ios, example.ios[1])), ["input"], ["output"])
