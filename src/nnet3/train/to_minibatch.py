"""Turns examples into minibatches for the trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from nnet3.errors import TrainingError
from nnet3.examples.example import Example
from nnet3.examples.io import NnetIo
from nnet3.kaldi_io import SparseMatrix
from nnet3.kaldi_io.general import dense
from nnet3.train.minibatch import MatrixTarget, Minibatch, NetworkInput


def to_minibatch(
    example: Example, input_dims: Mapping[str, int], output_dims: Mapping[str, int], key: str = ""
) -> Minibatch:
    """Returns the minibatch of an example for a network whose inputs and outputs have these numbers of columns.

    Sparse supervision stays sparse, all else becomes dense. Raises TrainingError if the example has no input or no
    output of the network, one that the network does not have, one with another number of columns, or one twice.
    """
    unknown = [io.name for io in example.ios if io.name not in input_dims and io.name not in output_dims]
    if unknown:
        raise TrainingError(
            f"the example has {_names(unknown)}, but the network has the inputs {_names(input_dims)} and the outputs "
            f"{_names(output_dims)}"
        )
    inputs, outputs = (_chosen(example, dims, kind) for dims, kind in ((input_dims, "input"), (output_dims, "output")))
    return Minibatch([to_input(io, input_dims) for io in inputs], [_to_target(io, output_dims) for io in outputs], key)


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


def _chosen(example: Example, dims: Mapping[str, int], kind: str) -> Sequence[NnetIo]:
    chosen = [io for io in example.ios if io.name in dims]
    if not chosen:
        raise TrainingError(
            f"the example has none of the network's {kind}s {_names(dims)}, but "
            f"{', '.join(io.name for io in example.ios)}"
        )
    if len({io.name for io in chosen}) < len(chosen):
        raise TrainingError(f"the example has an {kind} twice: {', '.join(io.name for io in chosen)}")
    return chosen


def _names(names: Sequence[str] | Mapping[str, int]) -> str:
    return ", ".join(f"'{name}'" for name in names)
