"""Turns examples into minibatches for the trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from nnet3.base.kaldi_io.general import dense
from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.errors import TrainingError
from nnet3.training.examples.example import Example, NnetIo
from nnet3.training.train.minibatch import MatrixTarget, Minibatch, NetworkInput, WantedOutput


def to_minibatch(
    example: Example, input_dims: Mapping[str, int], output_dims: Mapping[str, int], key: str = ""
) -> Minibatch:
    """Returns the minibatch of an example for a network with the given numbers of columns of inputs and outputs.

    Sparse supervision stays sparse, all else becomes dense. Raises TrainingError if the example has no input or no
    output of the network, an io unknown to the network, an io with a wrong number of columns, or an io twice.
    """
    _check_known(example.ios, input_dims, output_dims)
    inputs, outputs = _chosen(example.ios, input_dims, "input"), _chosen(example.ios, output_dims, "output")
    return Minibatch([to_input(io, input_dims) for io in inputs], [_to_target(io, output_dims) for io in outputs], key)


def to_unlabelled(
    ios: Sequence[NnetIo], input_dims: Mapping[str, int], output_names: Sequence[str], key: str = ""
) -> Minibatch:
    """Returns a minibatch that asks for the outputs of an example's ios, without the values of their supervision.

    The supervision may have any number of columns. Raises TrainingError if an io is no node of the network.
    """
    _check_known(ios, input_dims, output_names)
    inputs = [to_input(io, input_dims) for io in _chosen(ios, input_dims, "input")]
    return Minibatch(inputs, [WantedOutput(io.name, io.indexes) for io in _chosen(ios, output_names, "output")], key)


def to_input(io: NnetIo, dims: Mapping[str, int]) -> NetworkInput:
    """Returns the rows of an input, dense. TrainingError if the network's has another number of columns."""
    _check_columns(io, dims, "input")
    return NetworkInput(io.name, io.indexes, torch.from_numpy(dense(io.matrix)))


def _to_target(io: NnetIo, dims: Mapping[str, int]) -> MatrixTarget:
    _check_columns(io, dims, "output")
    matrix = io.matrix if isinstance(io.matrix, SparseMatrix) else torch.from_numpy(dense(io.matrix))
    return MatrixTarget(io.name, io.indexes, matrix)


def _check_columns(io: NnetIo, dims: Mapping[str, int], kind: str) -> None:
    columns = io.matrix.shape[1]
    if columns != dims[io.name]:  # before anything is made dense: a sparse matrix may claim any number of columns
        raise TrainingError(
            f"{kind} '{io.name}' has {columns} columns in the example, but {dims[io.name]} in the network"
        )


def _check_known(ios: Sequence[NnetIo], inputs: Mapping[str, int], outputs: Sequence[str] | Mapping[str, int]) -> None:
    unknown = [io.name for io in ios if io.name not in inputs and io.name not in outputs]
    if unknown:
        raise TrainingError(
            f"the example has {_names(unknown)}, but the network has the inputs {_names(inputs)} and the outputs "
            f"{_names(outputs)}"
        )


def _chosen(ios: Sequence[NnetIo], names: Sequence[str] | Mapping[str, int], kind: str) -> Sequence[NnetIo]:
    chosen = [io for io in ios if io.name in names]
    if not chosen:
        raise TrainingError(
            f"the example has none of the network's {kind}s {_names(names)}, but {', '.join(io.name for io in ios)}"
        )
    if len({io.name for io in chosen}) < len(chosen):
        raise TrainingError(f"the example has an {kind} twice: {', '.join(io.name for io in chosen)}")
    return chosen


def _names(names: Sequence[str] | Mapping[str, int]) -> str:
    return ", ".join(f"'{name}'" for name in names)
