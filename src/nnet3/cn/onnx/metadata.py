"""Metadata in the ONNX files of computational networks."""

from __future__ import annotations

import os
from dataclasses import dataclass

from nnet3.export.metadata import FileMetadata, read_metadata


@dataclass(frozen=True)
class NetworkMetadata(FileMetadata):
    """The metadata of a file, a field under its name after "nnet3.", as JSON.

    `frames`: the frames of a sequence, 0 for any number. `may_be_padded`: frames after the end of a sequence change
    nothing before the end, so that sequences of several lengths can be given together. `states`: the inputs that are
    frames before the first, or for negative numbers after the last, and their numbers of frames.
    """

    frames: int
    may_be_padded: bool
    states: dict[str, int]


def load_network_metadata(path: str | os.PathLike[str]) -> NetworkMetadata:
    """Returns the metadata of a file written by `Network.export_onnx`. Raises ExportError for any other file."""
    return read_metadata(path, NetworkMetadata)
