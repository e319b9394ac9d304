"""The data of an example for one input or output of a network (Kaldi: NnetIo)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3.kaldi_io import GeneralMatrix, Reader, Writer


@dataclass(frozen=True, eq=False)
class NnetIo:
    """The rows of an input, or the supervision of an output node, as they lie in the file.

    `indexes` is (rows, 3) int32: n, t, x of each row. `matrix` has as many rows: a float32 array, a SparseMatrix or a
    CompressedMatrix, whose codes are kept.
    """

    name: str
    indexes: np.ndarray
    matrix: GeneralMatrix

    @property
    def structure(self) -> tuple[str, tuple[int, int], bytes]:
        """A value that is equal for ios that fit in one minibatch: name, rows, columns and indexes."""
        rows, columns = self.matrix.shape
        return self.name, (rows, columns), np.ascontiguousarray(self.indexes, np.int32).tobytes()


def describe_rows(name: str, indexes: np.ndarray) -> str:
    """Returns words such as `input (6 rows, t = -1 to 4)`."""
    times = indexes[:, 1]
    return f"{name} ({len(times)} rows" + (f", t = {times.min()} to {times.max()})" if len(times) else ")")


def read_io(reader: Reader) -> NnetIo:
    """Reads the `<NnetIo>` at the reader's position."""
    reader.expect("<NnetIo>")
    name = reader.token()
    indexes = reader.index_vector()
    start = reader.position
    matrix = reader.general_matrix(keep_codes=True)
    if matrix.shape[0] != len(indexes):
        raise reader.error_at(start, f"'{name}' has {len(indexes)} indexes, but a matrix of {matrix.shape[0]} rows")
    reader.expect("</NnetIo>")
    return NnetIo(name, indexes, matrix)


def write_io(writer: Writer, io: NnetIo) -> None:
    """Writes what `read_io` reads, byte for byte as Kaldi does."""
    writer.token("<NnetIo>")
    writer.token(io.name)
    writer.index_vector(io.indexes)
    writer.general_matrix(io.matrix)
    writer.token("</NnetIo>")
