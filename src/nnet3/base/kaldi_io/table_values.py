"""The kinds of tables: how entries of each kind are read and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from nnet3.base.kaldi_io.arrays import converted, int32_array, whole_numbers
from nnet3.base.kaldi_io.elements import gather_elements, scatter_elements
from nnet3.base.kaldi_io.format_numbers import format_row
from nnet3.base.kaldi_io.general import GeneralMatrix
from nnet3.base.kaldi_io.int32_table import TAGGED, tagged
from nnet3.base.kaldi_io.parse_numbers import parse_row, parse_rows
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.table_writer import Finished, TableWriter, finished_entries
from nnet3.base.kaldi_io.tables import RandomAccessTable, TableReader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.text import is_word, words_of
from nnet3.errors import ModelFormatError

R = TypeVar("R")
W = TypeVar("W")


class Posterior(NamedTuple):
    """Frame t has ids[indptr[t]:indptr[t + 1]] with their weights."""

    indptr: np.ndarray  # (frames + 1,) int64
    ids: np.ndarray  # int32
    weights: np.ndarray  # float32


def read_alignment(reader: Reader) -> np.ndarray:
    """Returns the integers of a table entry, (n,) int32. Not the form that integer vectors have inside model files."""
    if not reader.binary:
        start = reader.position
        line = reader.line().encode()
        return parse_row(line, 0, len(line), np.int32, lambda at, text: reader.error_at(start + at, text))
    return _read_binary(reader, 1, "a vector of integers")


def write_alignment(writer: Writer, values: ArrayLike) -> None:
    """Writes integers, (n,), in the form that `read_alignment` reads."""
    array = int32_array(values)
    if not writer.binary:
        writer.text("%d " * len(array) % tuple(array.tolist()) + "\n")
        return
    writer.int32(len(array))
    writer.raw(tagged(array).tobytes())


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
    return _read_binary(reader, 2, "a vector of pairs").reshape(-1, 2)


def _read_binary(reader: Reader, width: int, what: str) -> np.ndarray:
    """Reads a vector of elements of `width` integers, (elements, width), behind their number."""
    start = reader.position
    elements = reader.raw_array(width * reader.size(what), TAGGED, what)
    if (elements["size"] != 4).any():
        raise reader.error_at(start, "expected 32-bit integers")
    return elements["value"].copy()


def write_pairs(writer: Writer, pairs: ArrayLike) -> None:
    """Writes pairs, (n, 2), in the form that `read_pairs` reads."""
    array = int32_array(pairs, 2)
    if not writer.binary:
        writer.text("; ".join(["%d %d "] * len(array)) % tuple(array.reshape(-1).tolist()) + "\n")
        return
    writer.int32(len(array))
    writer.raw(tagged(array).tobytes())


def write_real_pairs(writer: Writer, pairs: ArrayLike) -> None:
    """Writes pairs of numbers, (n, 2), such as times of words: `1.5 2 ; 2 3.25` in text."""
    array = np.asarray(pairs, np.float32).reshape(-1, 2)
    if writer.binary:
        writer.int32(len(array))
    for number, pair in enumerate(array.tolist()):
        if number and not writer.binary:
            writer.text("; ")
        for value in pair:
            writer.real(value)
    writer.newline()


def read_token(reader: Reader) -> str:
    """Returns one word, the last of its line."""
    words = words_of(reader.line())
    if len(words) != 1:
        raise reader.error(f"expected one word on the line, got {len(words)}")
    return words[0]


def read_words(reader: Reader) -> list[str]:
    """Returns the words on the rest of a line, none or more."""
    return words_of(reader.line())


def write_words(writer: Writer, words: Sequence[str]) -> None:
    writer.text("".join(f"{word} " for word in words) + "\n")


def write_token(writer: Writer, token: str) -> None:
    if not is_word(token):
        raise ModelFormatError(f"cannot write {token!r} as a token, which is a word without blanks")
    writer.text_line(token)


def read_posterior(reader: Reader) -> Posterior:
    """Reads a posterior: the ids and weights of each frame."""
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
    """Writes a posterior in the form that `read_posterior` reads."""
    counts = np.diff(posterior.indptr).tolist()
    if not writer.binary:
        words = format_row(np.asarray(posterior.weights, np.float32)).split()
        pairs = [item for pair in zip(posterior.ids.tolist(), words, strict=True) for item in pair]
        writer.text("".join(f"[ {'%d %s ' * count}] " for count in counts) % tuple(pairs) + "\n")
        return
    writer.int32(len(counts))
    writer.raw(scatter_elements(tagged(np.asarray(counts, np.int32)), *posterior))


def write_int32(writer: Writer, value: int) -> None:
    writer.int32(value)
    writer.newline()


def write_real(writer: Writer, value: float) -> None:
    writer.real(value)
    writer.newline()


def read_general_matrix(reader: Reader) -> GeneralMatrix:
    """Reads a full, sparse or compressed matrix, whose codes are kept."""
    return reader.general_matrix(keep_codes=True)


@dataclass(frozen=True)
class TableKind(Generic[R, W]):
    """Reads and writes one kind of table; `text_only` and `header` are those of TableWriter."""

    read: Callable[[Reader], R]
    write: Callable[[Writer, W], None]
    text_only: bool = False
    header: bool = True

    def open(self, rspecifier: str) -> TableReader[R]:
        """Iterates over (key, entry)."""
        return TableReader(rspecifier, self.read)

    def by_key(self, rspecifier: str) -> RandomAccessTable[R]:
        """Looks entries up by their keys."""
        return RandomAccessTable(rspecifier, self.read)

    def writer(self, wspecifier: str, finished: Finished | None = None, *, grows: bool = False) -> TableWriter[W]:
        """Writes entries, behind the entries found by `finished_entries`."""
        return TableWriter(wspecifier, self.write, self.text_only, finished, self.header, grows)

    def finished(self, wspecifier: str) -> Finished:
        """Finds the entries that are there already where a wspecifier `ark,scp:` writes to."""
        return finished_entries(wspecifier, self.read)


_MATRICES = TableKind(Reader.matrix, Writer.general_matrix)  # read as (rows, columns) float32; written as they are
_GENERAL = TableKind(read_general_matrix, Writer.general_matrix)  # compressed ones keep their codes
_VECTORS = TableKind(Reader.vector, Writer.vector)  # (n,) float32
_INT_VECTORS = TableKind(read_alignment, write_alignment)  # (n,) int32, such as alignments
_PAIRS = TableKind(read_pairs, write_pairs)  # (n, 2) int32, such as phones and how many frames each lasts
_REAL_PAIRS = TableKind(Reader.real, write_real_pairs)  # only written
_TOKENS = TableKind(read_token, write_token, text_only=True)  # a word, such as the speaker of an utterance
_WORDS = TableKind(read_words, write_words, text_only=True)  # the words of an utterance
_REALS = TableKind(Reader.real, write_real)
_NUMBERS = TableKind(Reader.int32, write_int32)
_POSTERIORS = TableKind(read_posterior, write_posterior)

open_matrix_table, random_access_matrices, matrix_writer = _MATRICES.open, _MATRICES.by_key, _MATRICES.writer
finished_matrices = _GENERAL.finished
open_general_matrix_table, random_access_general_matrices = _GENERAL.open, _GENERAL.by_key
open_vector_table, random_access_vectors, vector_writer = _VECTORS.open, _VECTORS.by_key, _VECTORS.writer
open_int_vector_table, random_access_int_vectors = _INT_VECTORS.open, _INT_VECTORS.by_key
int_vector_writer = _INT_VECTORS.writer
open_pair_table, pair_writer = _PAIRS.open, _PAIRS.writer
real_pair_writer = _REAL_PAIRS.writer
open_token_table, random_access_tokens, token_writer = _TOKENS.open, _TOKENS.by_key, _TOKENS.writer
open_words_table, random_access_words, words_writer = _WORDS.open, _WORDS.by_key, _WORDS.writer
random_access_reals, real_writer = _REALS.by_key, _REALS.writer
open_posterior_table, random_access_posteriors = _POSTERIORS.open, _POSTERIORS.by_key
random_access_int32s, int32_writer = _NUMBERS.by_key, _NUMBERS.writer
posterior_writer = _POSTERIORS.writer
