"""From examples, as files hold them, to minibatches."""

from __future__ import annotations

import torch

from nnet3.errors import TrainingError
from nnet3.kaldi_io.general import dense
from nnet3.kaldi_io.sparse import SparseMatrix
from nnet3.nnet import Nnet
from nnet3.text import did_you_mean
from nnet3.train.examples import Example, NnetIo
from nnet3.train.minibatch import MatrixTarget, Minibatch, NetworkInput


def network_input(io: NnetIo, nnet: Nnet, key: str = "") -> NetworkInput:
    """The rows of an input, dense. Raises TrainingError unless they have as many columns as the node."""
    wanted = nnet.node_dim(io.name)
    if io.matrix.shape[1] != wanted:
        where = f"example '{key}': " if key else ""
        raise TrainingError(f"{where}'{io.name}' has {io.matrix.shape[1]} columns, the network's node has {wanted}")
    return NetworkInput(io.name, io.indexes, torch.from_numpy(dense(io.matrix)))


def minibatch_of(example: Example, nnet: Nnet, key: str = "") -> Minibatch:
    """What is named as an input node is input, what is named as an output node a target (sparse ones stay sparse).

    Raises TrainingError for other names and for inputs of another size than the network's.
    """
    inputs: list[NetworkInput] = []
    targets: list[MatrixTarget] = []
    for io in example.ios:
        if io.name in nnet.input_names:
            inputs.append(network_input(io, nnet, key))
        elif io.name in nnet.output_names:
            is_sparse = isinstance(io.matrix, SparseMatrix)
            matrix = io.matrix if is_sparse else torch.from_numpy(dense(io.matrix))
            targets.append(MatrixTarget(io.name, io.indexes, matrix))  # type: ignore[arg-type]
        else:
            names = [*nnet.input_names, *nnet.output_names]
            hint = did_you_mean(io.name, names) or f"it has {', '.join(names)}"
            raise TrainingError(f"example '{key}': the network has no input or output '{io.name}'; {hint}")
    return Minibatch(inputs, targets, key)
