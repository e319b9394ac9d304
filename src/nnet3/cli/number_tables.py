"""Copies tables of matrices and vectors, tells sizes, and sums tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
import numpy as np

from nnet3.base.kaldi_io.compressed import CompressionMethod, compress
from nnet3.base.kaldi_io.general import GeneralMatrix, dense
from nnet3.base.kaldi_io.load import write_wxfilename
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.script import cut, split_range
from nnet3.base.kaldi_io.specifiers import is_table, parse_rxfilename
from nnet3.base.kaldi_io.streams import read_whole
from nnet3.base.kaldi_io.table_values import (
    int32_writer,
    int_vector_writer,
    matrix_writer,
    open_general_matrix_table,
    open_int_vector_table,
    open_matrix_table,
    open_vector_table,
    random_access_vectors,
    read_alignment,
    vector_writer,
    write_alignment,
)
from nnet3.base.kaldi_io.tables import TableReader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.cli.files import open_file, save
from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error


def copy_int_vectors(source: str, output: str, binary: bool) -> None:
    """Copies a table of vectors of integers, or the one in a file."""
    _check_both(source, output)
    if is_table(source):
        with open_int_vector_table(source) as table, int_vector_writer(output) as writer:
            for key, vector in table:
                writer.write(key, vector)
            if writer.count == 0:
                raise Nnet3Error(f"{source}: there are no vectors")
            say(f"Copied {writer.count} vectors of int32.")
        return
    vector = read_alignment(open_file(source))
    save(output, binary, lambda writer: write_alignment(writer, vector))


def copy_features(
    source: str,
    output: str,
    binary: bool,
    method: int | None,
    lengths: str,
    read: Callable[[Reader], np.ndarray] | None = None,
) -> None:
    """Copies a table of matrices, or the matrix in a file or a range of it; with a `method` matrices
    become compressed, else full.

    `read` reads the matrices of another toolkit.
    """
    _check_both(source, output)

    def changed(matrix: GeneralMatrix) -> GeneralMatrix:
        return dense(matrix) if method is None else compress(dense(matrix), CompressionMethod(method))

    if not is_table(source):
        if lengths:
            raise Nnet3Error(f"--write-num-frames={lengths} is for tables, and {source} is a file")
        if read is None:
            only = changed(part_of_file(source))
        else:
            only = changed(read(Reader(read_whole(parse_rxfilename(source)), source, binary=True)))
        save(output, binary, lambda file: file.general_matrix(only))
        return
    tables: TableReader[Any] = TableReader(source, read, header=False) if read else open_general_matrix_table(source)
    with tables as table, matrix_writer(output) as writer:
        counts = {}
        for key, matrix in table:
            writer.write(key, changed(matrix))
            counts[key] = matrix.shape[0]
        if not counts:
            raise Nnet3Error(f"{source}: there are no features")
        say(f"Copied {len(counts)} feature matrices.")
    if lengths:
        _write_numbers(lengths, counts)


def part_of_file(name: str) -> GeneralMatrix:
    """Returns the matrix in a file, or the part of it that a range behind the name says, as `a.mat[0:9]` does."""
    name, range_ = split_range(name, name)
    matrix = open_file(name).general_matrix()
    return cut(matrix, range_) if range_ else matrix


def write_lengths(source: str, output: str) -> int:
    """Writes the number of rows of each matrix to a table, if named; returns the sum of rows."""
    with open_general_matrix_table(source) as table:
        counts = {key: matrix.shape[0] for key, matrix in table}
    if output:
        _write_numbers(output, counts)
    return sum(counts.values())


def write_dims(source: str, output: str) -> None:
    """Writes the number of columns of each matrix to a table, or that of the first to a file."""
    if is_table(output):
        with open_general_matrix_table(source) as table:
            _write_numbers(output, {key: matrix.shape[1] for key, matrix in table})
        return
    with open_matrix_table(source) as first:
        entry = next(first, None)
    if entry is None:
        raise Nnet3Error(f"{source}: there are no features")
    writer = Writer(binary=False)
    writer.text_line(str(entry[1].shape[1]))
    write_wxfilename(output, writer)


def _write_numbers(output: str, numbers: dict[str, int]) -> None:
    with int32_writer(output) as writer:
        for key, number in numbers.items():
            writer.write(key, int(np.int32(number)))


def _check_both(source: str, output: str) -> None:
    if is_table(source) != is_table(output):
        raise Nnet3Error(f"{source}, {output}: give two tables or two files")


def sum_rows(matrices: str, output: str, average: bool) -> None:
    """Writes the sum, or the mean, of the rows of each matrix of a table."""
    with TableReader(matrices, lambda reader: reader.matrix(np.float64)) as table, vector_writer(output) as writer:
        for key, matrix in table:
            total = matrix.sum(0)
            writer.write(key, total / len(matrix) if average and len(matrix) else total)
        if writer.count == 0:
            raise Nnet3Error(f"{matrices}: there are no matrices")
        say(f"the rows of {writer.count} matrices summed")


def sum_vectors(sources: Sequence[str], output: str, binary: bool, average: bool) -> int:
    """Writes the sum of the vectors of one table or of files to a file; of several tables, a table of sums by key.

    `average`: of one table, the mean in the place of the sum. Returns 1, an exit status, if not most of the vectors are
    in the sums. Raises UsageError for tables and files together.
    """
    tables, into_table = {is_table(name) for name in sources}, is_table(output)
    is_one_table = tables == {True} and not into_table and len(sources) == 1
    if not is_one_table and tables != {into_table}:
        raise click.UsageError("give tables and a table to write, files and a file to write, or a table and a file")
    if average and not is_one_table:
        say("warning: --average acts on one table into a file only: these are summed")
    if into_table:
        return _sum_by_key(sources, output)
    total, status = _sum_of_table(sources[0], average) if is_one_table else (_sum_of_files(sources), 0)
    save(output, binary, lambda writer: writer.vector(total))
    return status


def _sum_of_table(source: str, average: bool) -> tuple[np.ndarray, int]:
    total, count, left_out = np.zeros(0), 0, 0
    with open_vector_table(source) as table:
        for key, vector in table:
            if len(vector) == 0 or (count and not _fits(vector, total, f"{source}: {key}")):
                left_out += 1
                continue
            total = vector.astype(np.float64) if count == 0 else total + vector
            count += 1
    if count == 0:
        raise Nnet3Error(f"{source}: there are no vectors")
    say(f"{count} vectors {'averaged' if average else 'summed'}, {left_out} left out")
    return (total / count if average else total), int(left_out >= count)


def _fits(vector: np.ndarray, other: np.ndarray, where: str) -> bool:
    """Returns whether two vectors are equally long, and warns if not."""
    if len(vector) != len(other):
        say(f"warning: {where}: left out: expected a vector of {len(other)} numbers, got {len(vector)}")
    return len(vector) == len(other)


def _sum_by_key(sources: Sequence[str], output: str) -> int:
    others = [random_access_vectors(name) for name in sources[1:]]
    missing = 0
    with open_vector_table(sources[0]) as first, vector_writer(output) as writer:
        for key, vector in first:
            total = vector
            for name, table in zip(sources[1:], others, strict=True):
                other = table.get(key)
                if other is None:
                    missing += 1
                    say(f"warning: {name} has no vector '{key}': the others are summed")
                elif _fits(other, vector, f"{name}: {key}"):
                    total = total + other
            writer.write(key, total)
        if writer.count == 0:
            raise Nnet3Error(f"{sources[0]}: there are no vectors")
        say(f"{writer.count} sums of vectors; {missing} vectors were missing")
        return int(missing >= writer.count - missing)


def _sum_of_files(sources: Sequence[str]) -> np.ndarray:
    """Returns the sum of vectors in files, as long as the longest."""
    total = np.zeros(0, np.float32)
    for name in sources:
        short, long = sorted([total, open_file(name).whole(Reader.vector)], key=len)
        total = long.copy()
        total[: len(short)] += short
    return total
