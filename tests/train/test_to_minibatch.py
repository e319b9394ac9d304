"""Examples for the trainer."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.general import dense
from nnet3.errors import TrainingError
from nnet3.examples import EXAMPLES, Example, NnetIo
from nnet3.kaldi_io import SparseMatrix, compress
from nnet3.training.train.minibatch import MatrixTarget
from nnet3.training.train.to_minibatch import to_minibatch
from tests.train.example_data import frame_example, grid


def test_what_the_network_has_nodes_for() -> None:
    ivector = NnetIo("ivector", grid(1, np.arange(1)), compress(np.ones((1, 2))))
    other = NnetIo("other", grid(1, np.arange(2)), np.zeros((2, 2), np.float32))
    example = EXAMPLES.merge([frame_example(np.random.default_rng(0), ivector=ivector, other=other)] * 3)
    minibatch = to_minibatch(example, {"input": 3, "ivector": 2}, {"output": 5, "other": 2}, "key")
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
    inputs, outputs = {"input": 3}, {"output": 5}
    with pytest.raises(
        TrainingError, match="has 'output', but the network has the inputs 'input' and the outputs 'pdf'"
    ):
        to_minibatch(example, inputs, {"pdf": 5})
    with pytest.raises(TrainingError, match="has 'input', but the network has the inputs 'x'"):
        to_minibatch(example, {"x": 3}, outputs)
    with pytest.raises(TrainingError, match="none of the network's outputs 'output', but input"):
        to_minibatch(Example(example.ios[:1]), inputs, outputs)
    with pytest.raises(TrainingError, match="an output twice"):
        to_minibatch(Example((*example.ios, example.ios[1])), inputs, outputs)
    with pytest.raises(TrainingError, match="input 'input' has 3 columns in the example, but 4 in the network"):
        to_minibatch(example, {"input": 4}, outputs)
    with pytest.raises(TrainingError, match="output 'output' has 5 columns in the example, but 6 in the network"):
        to_minibatch(example, inputs, {"output": 6})


def test_a_sparse_input_of_endless_rows_is_not_made_dense() -> None:
    endless = SparseMatrix(1, 2**31 - 1, np.array([0, 1]), np.array([7], np.int32), np.ones(1, np.float32))
    example = Example(
        (NnetIo("input", grid(1, np.arange(1)), endless), *frame_example(np.random.default_rng(0)).ios[1:])
    )
    with pytest.raises(TrainingError, match="input 'input' has 2147483647 columns in the example, but 3"):
        to_minibatch(example, {"input": 3}, {"output": 5})
