"""Files with a single object: the `lda.mat` of a config, a model named in a command line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack

import numpy as np
from numpy.typing import DTypeLike

from nnet3.base.kaldi_io.files import replaced_at_end
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.specifiers import parse_rxfilename, parse_wxfilename
from nnet3.base.kaldi_io.streams import OutputStream, read_whole
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ModelFormatError


def load_matrix(path: str | os.PathLike[str], dtype: DTypeLike = np.float32) -> np.ndarray:
    """Returns the matrix in a file, text or binary: (rows, columns). Raises ModelFormatError for any other file."""
    return Reader.open(path).whole(lambda reader: reader.matrix(dtype))


def load_vector(path: str | os.PathLike[str], dtype: DTypeLike = np.float32) -> np.ndarray:
    """Returns the vector in a file, text or binary: (n,). Raises ModelFormatError for any other file."""
    return Reader.open(path).whole(lambda reader: reader.vector(dtype))


def open_rxfilename(name: str) -> Reader:
    """Opens a name given in Kaldi's way: a path, `path:offset`, `command |`, or `-` for standard input.

    It may run a command: `name` must never come out of a model file. TableError if the name is none or cannot be
    opened, ModelFormatError for an empty file or an offset behind its end.
    """
    file = parse_rxfilename(name)
    data = read_whole(file)
    source = "standard input" if file.kind == "standard" else file.name
    if file.offset >= len(data):
        raise ModelFormatError(
            "this file is empty" if not data else f"this file ends before byte {file.offset}", source
        )
    reader = Reader(data, source, binary=False)
    reader.position = file.offset
    reader.read_header()
    return reader


def write_wxfilename(name: str, writer: Writer) -> None:
    """Writes the writer's data to a name of Kaldi's: a file (in one step), `| command` or `-` for standard output."""
    write_wxfilenames([(name, writer)])


def write_wxfilenames(outputs: Iterable[tuple[str, Writer]]) -> None:
    """Does what `write_wxfilename` does for several names: after an error none of the files is replaced."""
    files = [(parse_wxfilename(name), writer) for name, writer in outputs]
    with ExitStack() as complete:
        for file, writer in sorted(files, key=lambda each: each[0].kind != "file"):
            if file.kind == "file":
                complete.enter_context(replaced_at_end(file.name, writer.chunks))
                continue
            stream = OutputStream(file)
            stream.write(writer.getvalue())
            stream.close()
