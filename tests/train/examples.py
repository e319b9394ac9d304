"""Minibatches of training examples as Kaldi stores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from nnet3.kaldi_io import Reader, TableReader
from nnet3.nnet import Nnet
from nnet3.train.minibatch import MatrixTarget, Minibatch, NetworkInput


def read_minibatches(path: Path, nnet: Nnet) -> list[Minibatch]:
    """All merged examples of an archive: what the network has outputs for are targets."""
    with TableReader(f"ark:{path}", _read_example) as table:
        return [
            Minibatch(
                [NetworkInput(n, i, torch.from_numpy(m)) for n, i, m in ios if n in nnet.input_names],
                [MatrixTarget(*io) for io in ios if io[0] in nnet.output_names],
                key,
            )
            for key, ios in table
        ]


def _read_example(reader: Reader) -> list[Any]:
    reader.expect("<Nnet3Eg>")
    reader.expect("<NumIo>")
    ios = []
    for _ in range(reader.int32()):
        reader.expect("<NnetIo>")
        ios.append((reader.token(), reader.index_vector(), reader.general_matrix()))
        reader.expect("</NnetIo>")
    reader.expect("</Nnet3Eg>")
    return ios
