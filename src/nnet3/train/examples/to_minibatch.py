"""An example as a minibatch for the trainer."""

from __future__ import annotations

from collections.abc import Collection

import torch

from nnet3.errors import TrainingError
from nnet3.kaldi_io import SparseMatrix
from nnet3.kaldi_io.general import dense
from nnet3.train.examples.example import Example
from nnet3.train.examples.io import NnetIo
from nnet3.train.minibatch import MatrixTarget, Minibatch, NetworkInput


def to_minibatch(
    example: Example, input_names: Collection[str], output_names: Collection[str], key: str = ""
) -> Minibatch:
    """The ios that a network has input and output nodes for. Sparse supervision stays sparse, all else becomes dense.

    TrainingError if the example has no input or no output of the network, or has one twice.
    """
    inputs, outputs = (_chosen(example, names, kind) for names, kind in ((input_names, "in"), (output_names, "out")))
    return Minibatch(
        [to_input(io) for io in inputs],
        [
            MatrixTarget(
                io.name,
                io.indexes,
                io.matrix if isinstance(io.matrix, SparseMatrix) else torch.from_numpy(dense(io.matrix)),
            )
            for io in outputs
        ],
        key,
    )


def to_input(io: NnetIo) -> NetworkInput:
    """The rows of an input, dense."""
    return NetworkInput(io.name, io.indexes, torch.from_numpy(dense(io.matrix)))


def _chosen(example: Example, names: Collection[str], kind: str) -> list[NnetIo]:
    chosen = [io for io in example.ios if io.name in names]
    if not chosen:
        raise TrainingError(
            f"the example has none of the network's {kind}puts {', '.join(names)}, "
            f"but {', '.join(io.name for io in example.ios)}"
        )
    if len({io.name for io in chosen}) < len(chosen):
        raise TrainingError(f"the example has an {kind}put twice: {', '.join(io.name for io in chosen)}")
    return chosen
