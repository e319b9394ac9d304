"""Examples as minibatches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3.errors import TrainingError
from nnet3.kaldi_io.compressed import compress
from nnet3.kaldi_io.sparse import SparseMatrix
from nnet3.nnet import Nnet
from nnet3.train.examples import Example, NnetIo
from nnet3.train.from_example import minibatch_of
from nnet3.train.minibatch import grid, one_hot

CONFIG = "input-node name=input dim=2\ninput-node name=ivector dim=1\noutput-node name=output input=input\n"
ROWS = grid(2, [0])
X = np.array([[0.0, 1.0], [2.0, 3.0]], np.float32)


def test_inputs_and_targets() -> None:
    labels = one_hot(np.array([0, 1]), 2)
    ios = (
        NnetIo("output", ROWS, labels),
        NnetIo("input", ROWS, compress(X)),
        NnetIo("ivector", grid(2, [0]), SparseMatrix(2, 1, np.array([0, 0, 1]), np.array([0], np.int32), np.ones(1))),
    )
    minibatch = minibatch_of(Example(ios), Nnet.from_config(CONFIG), "a-1")
    assert (minibatch.key, minibatch.num_sequences) == ("a-1", 2)
    assert [io.name for io in minibatch.inputs] == ["input", "ivector"]
    torch.testing.assert_close(minibatch.inputs[0].matrix, torch.from_numpy(X), atol=1e-3, rtol=0)
    assert minibatch.inputs[1].matrix.tolist() == [[0.0], [1.0]]
    (target,) = minibatch.targets
    assert target.matrix is labels, "sparse as it was"  # type: ignore[attr-defined]


def test_full_targets() -> None:
    minibatch = minibatch_of(Example((NnetIo("output", ROWS, X),)), Nnet.from_config(CONFIG))
    assert minibatch.targets[0].matrix.tolist() == X.tolist()  # type: ignore[attr-defined]


def test_names_and_sizes_must_be_the_networks() -> None:
    nnet = Nnet.from_config(CONFIG)
    with pytest.raises(TrainingError, match="example 'k': the network has no input or output 'ouput'; did you mean"):
        minibatch_of(Example((NnetIo("ouput", ROWS, X),)), nnet, "k")
    with pytest.raises(TrainingError, match="example 'k': 'ivector' has 2 columns, the network's node has 1"):
        minibatch_of(Example((NnetIo("ivector", ROWS, X),)), nnet, "k")


def test_a_claim_of_many_columns_costs_no_memory() -> None:
    huge = SparseMatrix(2, 2**31 - 1, np.zeros(3, int), np.zeros(0, np.int32), np.zeros(0, np.float32))
    with pytest.raises(TrainingError, match="2147483647 columns"):
        minibatch_of(Example((NnetIo("input", ROWS, huge),)), Nnet.from_config(CONFIG))
