"""Copies, scales and sums vectors and matrices, and changes the columns of features."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from nnet3.base.kaldi_io.general import dense
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.specifiers import is_table
from nnet3.base.kaldi_io.table_values import (
    matrix_writer,
    open_general_matrix_table,
    open_matrix_table,
    open_vector_table,
    random_access_matrices,
    random_access_tokens,
    random_access_vectors,
    vector_writer,
)
from nnet3.cli.feature_tables import write_changed
from nnet3.cli.files import open_file, read_text, save
from nnet3.cli.messages import say
from nnet3.cli.number_tables import MATRICES, part_of_file, sum_by_key, sum_of_table
from nnet3.errors import Nnet3Error


def change_vectors(source: str, output: str, binary: bool, change: Callable[[np.ndarray], np.ndarray]) -> int:
    """Writes changed vectors, of a table or of a file. Returns 1, an exit status, for an empty table."""
    _check_both(source, output)
    if not is_table(source):
        vector = change(open_file(source).whole(Reader.vector))
        save(output, binary, lambda writer: writer.vector(vector))
        return 0
    with open_vector_table(source) as table, vector_writer(output) as writer:
        for key, vector in table:
            writer.write(key, change(vector))
        say(f"Copied {writer.count} vectors.")
        return int(writer.count == 0)


def change_matrices(source: str, output: str, binary: bool, change: Callable[[np.ndarray], np.ndarray]) -> int:
    """Writes changed matrices, full ones, of a table or of a file. Returns 1, an exit status, for an empty table."""
    _check_both(source, output)
    if not is_table(source):
        matrix = change(dense(part_of_file(source)))
        save(output, binary, lambda writer: writer.matrix(matrix))
        return 0
    with open_general_matrix_table(source) as table, matrix_writer(output) as writer:
        for key, entry in table:
            writer.write(key, change(dense(entry)))
        say(f"Copied {writer.count} matrices.")
        return int(writer.count == 0)


def _check_both(source: str, output: str) -> None:
    if is_table(source) != is_table(output):
        raise Nnet3Error(f"{source}, {output}: give two tables or two files")


def sum_matrices(
    sources: tuple[str, ...], output: str, binary: bool, scales: tuple[float, float], average: bool
) -> int:
    """Writes a sum of matrices: of all in one table into a file, of equal keys of tables, or of files.

    `scales` are of the first and the second of several tables, whose means have none. Returns 1, an exit status, if not
    most of the matrices are in the sums. Raises Nnet3Error for files with matrices of different sizes.
    """
    if is_table(output):
        factors = [1 / len(sources)] * len(sources) if average else [*scales, *[1.0] * len(sources)][: len(sources)]
        return sum_by_key(sources, output, factors, MATRICES)
    status = 0
    if len(sources) == 1 and is_table(sources[0]):
        total, status = sum_of_table(sources[0], average, MATRICES)
    else:
        parts = [dense(part_of_file(name)) for name in sources]
        if len({part.shape for part in parts}) > 1:
            raise Nnet3Error(f"{', '.join(sources)}: the matrices are {', '.join(str(part.shape) for part in parts)}")
        total = np.sum(parts, axis=0) / (len(parts) if average else 1)
    save(output, binary, lambda writer: writer.matrix(total))
    return status


def print_dims(source: str, show: Callable[[str], object]) -> int:
    """Shows rows and columns of the matrix in a file, or of those of a table behind their keys; 1 without any."""
    if not is_table(source):
        show("\t".join(map(str, part_of_file(source).shape)))
        return 0
    is_empty = True
    with open_general_matrix_table(source) as table:
        for key, matrix in table:
            is_empty = False
            show("\t".join([key, *map(str, matrix.shape)]))
    return int(is_empty)


def select_columns(columns: str, source: str, output: str) -> int:
    """Writes some columns of features, such as 0-12,15 or 3-1, in this order; 1, an exit status, if none can be."""
    chosen = np.array(_columns(columns))

    def selected(_: str, rows: np.ndarray) -> np.ndarray:
        if chosen.max() >= rows.shape[1]:
            raise Nnet3Error(f"it has {rows.shape[1]} columns, so there is no column {chosen.max()}")
        return rows[:, chosen]

    return write_changed(source, output, selected, "Selected columns of", needs_some=False)


def _columns(text: str) -> list[int]:
    found: list[int] = []
    for piece in text.split(","):
        first, dash, last = piece.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise Nnet3Error(f"'{text}': expected columns such as 0-12,15, counted from 0")
        begin, end = int(first), int(last or first)
        found += range(begin, end + 1) if begin <= end else range(begin, end - 1, -1)
    return found


def transform(transforms: str, source: str, output: str, utt2spk: str) -> int:
    """Writes features times a matrix of their utterance or speaker, or the one in a file. Returns 1 without any.

    A matrix (outputs, inputs + 1) has an offset as its last column.
    """
    find = _finder(transforms, utt2spk)

    def transformed(key: str, rows: np.ndarray) -> np.ndarray:
        matrix, columns = find(key), rows.shape[1]
        if matrix.shape[1] not in (columns, columns + 1):
            raise Nnet3Error(f"it has {columns} columns, the transform is for {matrix.shape[1]}")
        changed = rows @ matrix[:, :columns].T
        return changed if matrix.shape[1] == columns else changed + matrix[:, columns]

    return write_changed(source, output, transformed, "Applied transform to")


def compose(first: str, second: str, output: str, binary: bool, utt2spk: str, is_affine: bool) -> int:
    """Writes products of transforms, of which the second is applied first: each may be a table or a matrix in a file.

    `utt2spk`: the first table is by utterance, the second one by speaker. `is_affine`: the last column of the second
    transform is an offset. Returns 1, an exit status, if all products were left out.
    """
    if (is_table(first) or is_table(second)) != is_table(output):
        raise Nnet3Error(f"{output}: products of tables make a table, those of two files a file")
    if utt2spk and not (is_table(first) and is_table(second)):
        raise Nnet3Error("--utt2spk is for two tables of transforms")
    if not is_table(output):
        product = _product(dense(part_of_file(first)), dense(part_of_file(second)), is_affine)
        save(output, binary, lambda writer: writer.matrix(product))
        return 0
    composed = partial(write_changed, output=output, done="Composed", needs_some=False)
    if not is_table(first):
        whole = dense(part_of_file(first))
        return composed(second, change=lambda _, matrix: _product(whole, matrix, is_affine))
    find = _finder(second, utt2spk)
    return composed(first, change=lambda key, matrix: _product(matrix, find(key), is_affine))


def _finder(transforms: str, utt2spk: str) -> Callable[[str], np.ndarray]:
    """Returns a function from an utterance to a transform: of a file, or, in a table, of utterance or speaker."""
    if not is_table(transforms):
        whole = dense(part_of_file(transforms))
        return lambda _: whole
    by_key, speakers = random_access_matrices(transforms), random_access_tokens(utt2spk) if utt2spk else None

    def found(key: str) -> np.ndarray:
        speaker = key if speakers is None else speakers.get(key)
        matrix = None if speaker is None else by_key.get(speaker)
        if matrix is None:
            raise Nnet3Error("there is no transform for it")
        return matrix

    return found


def _product(first: np.ndarray, second: np.ndarray, is_affine: bool) -> np.ndarray:
    """Returns first times second; if the first one has a column more than the second has rows, that is an offset."""
    rows = len(second)
    if rows == 0 or first.shape[1] not in (rows, rows + 1):
        raise Nnet3Error(f"a matrix of {first.shape[1]} columns does not fit one of {rows} rows")
    if first.shape[1] == rows + 1:
        second = np.pad(second, ((0, 1), (0, 0 if is_affine else 1)))
        second[-1, -1] = 1
    return first @ second


def append_vectors(source: str, vectors: str, output: str) -> int:
    """Writes features with the vector of their utterance behind each row. Returns 1, an exit status, without any."""
    if not is_table(source):
        rows, vector = dense(part_of_file(source)), open_file(vectors).whole(Reader.vector)
        save(output, True, lambda writer: writer.matrix(_beside(rows, vector)))
        return 0
    by_key = random_access_vectors(vectors)

    def appended(key: str, rows: np.ndarray) -> np.ndarray:
        vector = by_key.get(key)
        if vector is None:
            raise Nnet3Error(f"{vectors} has no vector for it")
        return _beside(rows, vector)

    return write_changed(source, output, appended, "Appended vectors to")


def _beside(rows: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return np.concatenate([rows, np.broadcast_to(vector, (len(rows), len(vector)))], axis=1)


def take_some(source: str, output: str, most: int, include: str, exclude: str) -> int:
    """Writes the first `most` features, or those of keys that begin lines of a file, or all others; never compressed.

    Returns 1, an exit status, if keys or `most` leave none.
    """
    lines = read_text(include or exclude).splitlines() if include or exclude else []
    keys, by_key = {line.split()[0] for line in lines if line.split()}, bool(include or exclude)
    with open_matrix_table(source) as table, matrix_writer(output) as writer:
        for key, matrix in table:
            if not by_key and writer.count == most:
                break
            if not by_key or (key in keys) == bool(include):
                writer.write(key, matrix)
        say(f"Copied {writer.count} feature files.")
        return int(writer.count == 0 and (by_key or most == 0))
