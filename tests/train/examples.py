"""Minibatches of training examples as Kaldi stores them."""

from __future__ import annotations

from pathlib import Path

import torch

from nnet3.kaldi_io import Reader, TableReader
from nnet3.kaldi_io.compressed import CompressedMatrix
from nnet3.kaldi_io.sparse import SparseMatrix
from nnet3.nnet import Nnet
from nnet3.train.minibatch import Minibatch, NamedMatrix


def read_minibatches(path: Path, nnet: Nnet) -> list[Minibatch]:
    """All merged examples of an archive: what the network has outputs for is supervision."""
    with TableReader(f"ark:{path}", _read_example) as table:
        return [
            Minibatch(
                [io for io in ios if io.name in nnet.input_names], [io for io in ios if io.name in nnet.output_names]
            )
            for _, ios in table
        ]


def _read_example(reader: Reader) -> list[NamedMatrix]:
    reader.expect("<Nnet3Eg>")
    reader.expect("<NumIo>")
    ios = []
    for _ in range(reader.int32()):
        reader.expect("<NnetIo>")
        name, indexes = reader.token(), reader.index_vector()
        matrix = reader.general_matrix()
        assert not isinstance(matrix, CompressedMatrix), "it was to be decoded"
        dense = matrix.dense() if isinstance(matrix, SparseMatrix) else matrix
        ios.append(NamedMatrix(name, indexes, torch.from_numpy(dense)))
        reader.expect("</NnetIo>")
    reader.expect("</Nnet3Eg>")
    return ios
