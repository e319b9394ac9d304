"""Writing Kaldi's text and binary streams, byte for byte as Kaldi does."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nnet3.base.kaldi_io.arrays import float_array, int32_array
from nnet3.base.kaldi_io.compressed import CompressedMatrix
from nnet3.base.kaldi_io.files import write_atomically
from nnet3.base.kaldi_io.format_numbers import format_double, format_float, format_row, format_rows
from nnet3.base.kaldi_io.index_vector import elements_as_bytes, elements_as_text
from nnet3.base.kaldi_io.sparse import SparseMatrix, rows_as_bytes, rows_as_text
from nnet3.base.text import is_word
from nnet3.errors import ModelFormatError

if TYPE_CHECKING:
    from typing_extensions import Self


class Writer:
    """Collects written data; `getvalue()` or `write_to()` ends the collection."""

    def __init__(self, binary: bool):
        self.binary = binary
        self._chunks: list[bytes] = []

    def raw(self, contents: bytes) -> None:
        """Bytes as they are."""
        self._chunks.append(contents)

    def text(self, text: str) -> Self:
        """Writes text as it is; returns the writer."""
        self._chunks.append(text.encode("utf-8"))
        return self

    def getvalue(self) -> bytes:
        contents = b"".join(self._chunks)
        self._chunks = [contents]
        return contents

    @property
    def chunks(self) -> Sequence[bytes]:
        """Everything written, in pieces."""
        return self._chunks

    def write_to(self, path: str | os.PathLike[str]) -> None:
        """Puts everything into the file in one step."""
        write_atomically(path, self._chunks)

    @staticmethod
    def of_file(binary: bool) -> Writer:
        """Returns a writer of a whole file, begun with its header."""
        writer = Writer(binary)
        writer.header()
        return writer

    def header(self) -> None:
        """Writes the beginning of a file: 00 42 for binary, nothing for text."""
        if self.binary:
            self.raw(b"\0B")

    def token(self, token: str) -> Self:
        """Writes a token; returns the writer, to write the token's value. Raises ModelFormatError for other words."""
        if not is_word(token):
            raise ModelFormatError(f"cannot write {token!r} as a token, which is a word without blanks")
        self.text(token + " ")
        return self

    def newline(self) -> None:
        """Ends a line in text; writes nothing in binary."""
        if not self.binary:
            self.raw(b"\n")

    def text_line(self, line: str) -> None:
        """Writes a line of text, in binary files too."""
        self.text(line + "\n")

    def int32(self, value: int) -> None:
        if not -(2**31) <= value < 2**31:
            raise ModelFormatError(f"cannot write {value} as a 32-bit integer")
        if self.binary:
            self.raw(struct.pack("<Bi", 4, value))
        else:
            self.text(f"{int(value)} ")

    def real(self, value: float) -> None:
        """Writes a float32."""
        if self.binary:
            self.raw(struct.pack("<Bf", 4, value))
        else:
            self.text(format_float(value) + " ")

    def double(self, value: float) -> None:
        """Writes a float64."""
        if self.binary:
            self.raw(struct.pack("<Bd", 8, value))
        else:
            self.text(format_double(value) + " ")

    def boolean(self, value: bool) -> None:
        letter = "T" if value else "F"
        self.text(letter if self.binary else letter + " ")

    def vector(self, values: ArrayLike, double: bool = False) -> None:
        """Writes an array (n,) as float32, or as float64 if `double`."""
        array = float_array(values, 1, "<f8" if double else "<f4")
        if not self.binary:
            self.text(f" [ {format_row(array)}]\n")
            return
        self.token("DV" if double else "FV")
        self.int32(len(array))
        self.raw(array.tobytes())

    def matrix(self, values: ArrayLike, double: bool = False) -> None:
        """Writes an array (rows, columns) as float32, or float64 if `double`; an empty one as Kaldi's 0 x 0 matrix."""
        array = float_array(values, 2, "<f8" if double else "<f4")
        if array.size == 0:
            array = array.reshape(0, 0)
        if not self.binary:
            self.text(f" [{format_rows(array)}]\n" if array.size else " [ ]\n")
            return
        self.token("DM" if double else "FM")
        self.int32(array.shape[0])
        self.int32(array.shape[1])
        self.raw(array.tobytes())

    def packed(self, elements: ArrayLike, double: bool = False) -> None:
        """Writes the lower triangle of a symmetric matrix, row by row, (n (n + 1) / 2,), as float32 or float64."""
        array = float_array(elements, 1, "<f8" if double else "<f4")
        size = (math.isqrt(8 * len(array) + 1) - 1) // 2
        if size * (size + 1) // 2 != len(array):
            raise ModelFormatError(f"cannot write {len(array)} numbers as the lower triangle of a square matrix")
        if not self.binary:
            rows = np.split(array, np.cumsum(np.arange(1, size)))
            self.text("[\n" + "\n".join(map(format_row, rows)) + "]\n")
            return
        self.token("DP" if double else "FP")
        self.int32(size)
        self.raw(array.tobytes())

    def int_vector(self, values: ArrayLike) -> None:
        """Writes integers (n,) as int32."""
        self._integers(int32_array(values), "%d ")

    def pair_vector(self, values: ArrayLike) -> None:
        """Writes pairs of integers (n, 2) as int32."""
        self._integers(int32_array(values, 2), "%d,%d ")

    def _integers(self, array: np.ndarray, element: str) -> None:
        if not self.binary:
            self.text(f"[ {element * len(array) % tuple(array.reshape(-1).tolist())}]\n")
            return
        self.raw(struct.pack("<Bi", 4, len(array)) + array.tobytes())

    def index_vector(self, indexes: ArrayLike) -> None:
        """Writes indexes (n, 3), with columns n, t, x."""
        rows = int32_array(indexes, 3)
        self.token("<I1V>")
        self.int32(len(rows))
        if self.binary:
            self.raw(elements_as_bytes(rows))
        else:
            self.text(elements_as_text(rows))

    def compressed_matrix(self, matrix: CompressedMatrix) -> None:
        """Writes the codes to binary files, the decoded numbers to text."""
        if not self.binary or matrix.codes.size == 0:  # Kaldi does not read the empty one that it writes
            self.matrix(matrix.decode())
            return
        self.token(matrix.tag)
        self.raw(matrix.to_bytes())

    def sparse_matrix(self, matrix: SparseMatrix) -> None:
        """Writes the elements that are not zero, row after row."""
        if not self.binary:
            self.text(f"rows={matrix.rows} {rows_as_text(matrix)}\n")
            return
        self.token("SM")
        self.int32(matrix.rows)
        self.raw(rows_as_bytes(matrix))

    def general_matrix(self, matrix: ArrayLike | SparseMatrix | CompressedMatrix) -> None:
        """Writes a full, sparse or compressed matrix in its own form; without rows, as the empty full matrix."""
        if isinstance(matrix, CompressedMatrix):
            self.compressed_matrix(matrix)
        elif not isinstance(matrix, SparseMatrix):
            self.matrix(matrix)
        elif matrix.rows:
            self.sparse_matrix(matrix)
        else:
            self.matrix(matrix.dense())
