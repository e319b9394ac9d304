"""What tables hold, and the readers and writers of each kind of table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io.arrays import converted, int32_array, whole_numbers
from nnet3.kaldi_io.compressed import CompressedMatrix
from nnet3.kaldi_io.elements import gather_elements, scatter_elements
from nnet3.kaldi_io.format_numbers import format_row
from nnet3.kaldi_io.general import GeneralMatrix
from nnet3.kaldi_io.parse_numbers import parse_row, parse_rows
from nnet3.kaldi_io.reader import Reader
from nnet3.kaldi_io.resume import Finished, finished_entries
from nnet3.kaldi_io.sparse import SparseMatrix
from nnet3.kaldi_io.table_writer import TableWriter
from nnet3.kaldi_io.tables import RandomAccessTable, TableReader
from nnet3.kaldi_io.writer import Writer

_INTEGER = np.dtype([("size", "i1"), ("value", "<i4")])


class Posterior(NamedTuple):
    """Frame t has ids[indptr[t]:indptr[t + 1]] with their weights."""

    indptr: np.ndarray  # (frames + 1,) int64
    ids: np.ndarray  # int32
    weights: np.ndarray  # float32


def read_alignment(reader: Reader) -> np.ndarray:
    """The integers of a table entry, (n,) int32. Not the form that integer vectors have inside model files."""
    if not reader.binary:
        start = reader.position
        line = reader.line().encode()
        return parse_row(line, 0, len(line), np.int32, lambda at, text: reader.error_at(start + at, text))
    start = reader.position
    elements = reader.raw_array(reader.size("a vector of integers"), _INTEGER, "a vector of integers")
    if (elements["size"] != 4).any():
        raise reader.error_at(start, "expected 32-bit integers")
    return elements["value"].copy()


def write_alignment(writer: Writer, values: ArrayLike) -> None:
    """As `read_alignment` reads it."""
    array = int32_array(values)
    if not writer.binary:
        writer.text("%d " * len(array) % tuple(array.tolist()) + "\n")
        return
    writer.int32(len(array))
    elements = np.empty(len(array), _INTEGER)
    elements["size"], elements["value"] = 4, array
    writer.raw(elements.tobytes())


def read_pairs(reader: Reader) -> np.ndarray:
    """Pairs of integers of a table entry, such as phones and durations: (n, 2) int32. In text `1 2 ; 3 4`."""
    start = reader.position
    if not reader.binary:
        line = reader.line().encode()
        if not line.strip():
            return np.empty((0, 2), np.int32)
        if any(len(pair.split()) != 2 for pair in line.split(b";")):
            raise reader.error_at(start, "expected pairs of integers such as 1 2 ; 3 4")
        return parse_rows(line, 0, len(line), np.int32, lambda at, text: reader.error_at(start + at, text))
    elements = reader.raw_array(2 * reader.size("a vector of pairs"), _INTEGER, "a vector of pairs")
    if (elements["size"] != 4).any():
        raise reader.error_at(start, "expected 32-bit integers")
    return elements["value"].reshape(-1, 2).copy()


def write_pairs(writer: Writer, pairs: ArrayLike) -> None:
    """As `read_pairs` reads it."""
    array = int32_array(pairs, 2)
    if not writer.binary:
        writer.text(" ; ".join(["%d %d"] * len(array)) % tuple(array.reshape(-1).tolist()) + "\n")
        return
    writer.int32(len(array))
    elements = np.empty(array.size, _INTEGER)
    elements["size"], elements["value"] = 4, array.reshape(-1)
    writer.raw(elements.tobytes())


def read_token(reader: Reader) -> str:
    """One word, which ends the line."""
    words = reader.line().split()
    if len(words) != 1:
        raise reader.error(f"expected one word on the line, got {len(words)}")
    return words[0]


def write_token(writer: Writer, token: str) -> None:
    if token.split() != [token]:
        raise ModelFormatError(f"cannot write {token!r} as a token, which is a word without blanks")
    writer.text_line(token)


def read_posterior(reader: Reader) -> Posterior:
    """The ids and weights of each frame."""
    counts, ids, weights = _posterior_binary(reader) if reader.binary else _posterior_text(reader)
    return Posterior(np.concatenate([[0], np.cumsum(counts)]), ids, weights)


def _posterior_binary(reader: Reader) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    frames = reader.size("a posterior")
    reader.need(5 * frames, f"a posterior of {frames} frames")
    start = reader.position
    counts = np.zeros(frames, np.int64)
    for frame in range(frames):  # where a frame begins is known only after the one before it
        counts[frame] = count = reader.size("a frame of a posterior")
        reader.need(10 * count, f"a frame with {count} elements")
        reader.position += 10 * count
    return counts, *gather_elements(reader, start, 5, counts)


def _posterior_text(reader: Reader) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    start = reader.position
    frames = reader.line().encode().split(b"]")
    words = [frame.split() for frame in frames]
    if words.pop() or any(frame[:1] != [b"["] or len(frame) % 2 == 0 for frame in words):
        raise reader.error_at(start, "expected a posterior such as [ 3 0.5 7 0.5 ] [ 4 1 ]")
    flat = b" ".join(word for frame in words for word in frame[1:])
    numbers = parse_row(flat, 0, len(flat), np.float64, lambda _, text: reader.error_at(start, text))
    ids = whole_numbers(numbers[0::2])
    if ids is None:
        raise reader.error_at(start, "the first one of each pair must be an integer")
    counts = np.array([len(frame) // 2 for frame in words], np.int64)
    return counts, ids, converted(numbers[1::2], np.float32)


def write_posterior(writer: Writer, posterior: Posterior) -> None:
    """As `read_posterior` reads it."""
    counts = np.diff(posterior.indptr).tolist()
    if not writer.binary:
        words = format_row(np.asarray(posterior.weights, np.float32)).split()
        pairs = [item for pair in zip(posterior.ids.tolist(), words, strict=True) for item in pair]
        writer.text("".join(f"[ {'%d %s ' * count}] " for count in counts) % tuple(pairs) + "\n")
        return
    writer.int32(len(counts))
    headers = np.empty(len(counts), _INTEGER)
    headers["size"], headers["value"] = 4, counts
    writer.raw(scatter_elements(headers, *posterior))


def write_int32(writer: Writer, value: int) -> None:
    writer.int32(value)
    writer.newline()


def write_real(writer: Writer, value: float) -> None:
    writer.real(value)
    writer.newline()


def open_matrix_table(rspecifier: str) -> TableReader[np.ndarray]:
    """Iterates over (key, matrix): (rows, columns) float32, compressed ones decoded."""
    return TableReader(rspecifier, Reader.matrix)


def read_general_matrix(reader: Reader) -> GeneralMatrix:
    """A full, sparse or compressed matrix, whose codes are kept."""
    return reader.general_matrix(keep_codes=True)


def open_general_matrix_table(rspecifier: str) -> TableReader[GeneralMatrix]:
    """Iterates over (key, matrix) of any kind, compressed ones with their codes."""
    return TableReader(rspecifier, read_general_matrix)


def open_vector_table(rspecifier: str) -> TableReader[np.ndarray]:
    """Iterates over (key, vector): (n,) float32."""
    return TableReader(rspecifier, Reader.vector)


def open_int_vector_table(rspecifier: str) -> TableReader[np.ndarray]:
    """Iterates over (key, integers): (n,) int32, such as alignments."""
    return TableReader(rspecifier, read_alignment)


def open_pair_table(rspecifier: str) -> TableReader[np.ndarray]:
    """Iterates over (key, pairs): (n, 2) int32, such as phones and how many frames each lasts."""
    return TableReader(rspecifier, read_pairs)


def open_token_table(rspecifier: str) -> TableReader[str]:
    """Iterates over (key, word)."""
    return TableReader(rspecifier, read_token)


def open_posterior_table(rspecifier: str) -> TableReader[Posterior]:
    """Iterates over (key, posterior)."""
    return TableReader(rspecifier, read_posterior)


def random_access_matrices(rspecifier: str) -> RandomAccessTable[np.ndarray]:
    """Matrices by key."""
    return RandomAccessTable(rspecifier, Reader.matrix)


def random_access_vectors(rspecifier: str) -> RandomAccessTable[np.ndarray]:
    """Vectors by key."""
    return RandomAccessTable(rspecifier, Reader.vector)


def random_access_tokens(rspecifier: str) -> RandomAccessTable[str]:
    """Words by key, such as the speaker of each utterance."""
    return RandomAccessTable(rspecifier, read_token)


def random_access_reals(rspecifier: str) -> RandomAccessTable[float]:
    """Numbers by key, such as weights."""
    return RandomAccessTable(rspecifier, Reader.real)


def random_access_int_vectors(rspecifier: str) -> RandomAccessTable[np.ndarray]:
    """Vectors of integers by key."""
    return RandomAccessTable(rspecifier, read_alignment)


def random_access_posteriors(rspecifier: str) -> RandomAccessTable[Posterior]:
    """Posteriors by key."""
    return RandomAccessTable(rspecifier, read_posterior)


def matrix_writer(
    wspecifier: str, finished: Finished | None = None
) -> TableWriter[ArrayLike | SparseMatrix | CompressedMatrix]:
    """Writes full, sparse and compressed matrices, behind those that `finished_matrices` has found."""
    return TableWriter(wspecifier, Writer.general_matrix, finished=finished)


def finished_matrices(wspecifier: str) -> Finished:
    """The matrices that are there already where a wspecifier `ark,scp:` writes to."""
    return finished_entries(wspecifier, Reader.general_matrix)


def vector_writer(wspecifier: str) -> TableWriter[ArrayLike]:
    return TableWriter(wspecifier, Writer.vector)


def int_vector_writer(wspecifier: str) -> TableWriter[ArrayLike]:
    return TableWriter(wspecifier, write_alignment)


def pair_writer(wspecifier: str) -> TableWriter[ArrayLike]:
    return TableWriter(wspecifier, write_pairs)


def posterior_writer(wspecifier: str) -> TableWriter[Posterior]:
    return TableWriter(wspecifier, write_posterior)


def token_writer(wspecifier: str) -> TableWriter[str]:
    return TableWriter(wspecifier, write_token, text_only=True)
