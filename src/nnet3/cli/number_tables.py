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
    random_access_matrices,
    random_access_vectors,
    vector_writer,
)
from nnet3.base.kaldi_io.tables import TableReader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.cli.files import open_file, save
from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error

Tables = tuple[Callable[[str], Any], Callable[[str], Any], Callable[[str], Any]]  # open, look up by key, write
VECTORS: Tables = (open_vector_table, random_access_vectors, vector_writer)
MATRICES: Tables = (open_matrix_table, random_access_matrices, matrix_writer)


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
    vector = open_file(source).whole(Reader.int_vector)  # another form than that of tables
    save(output, binary, lambda writer: writer.int_vector(vector))


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
    kinds, into_table = {is_table(name) for name in sources}, is_table(output)
    is_one_table = kinds == {True} and not into_table and len(sources) == 1
    if not is_one_table and kinds != {into_table}:
        raise click.UsageError("give tables and a table to write, files and a file to write, or a table and a file")
    if average and not is_one_table:
        say("warning: --average acts on one table into a file only: these are summed")
    if into_table:
        return sum_by_key(sources, output, [1.0] * len(sources), VECTORS)
    total, status = sum_of_table(sources[0], average, VECTORS) if is_one_table else (_sum_of_files(sources), 0)
    save(output, binary, lambda writer: writer.vector(total))
    return status


def sum_of_table(source: str, average: bool, tables: Tables) -> tuple[np.ndarray, int]:
    """Returns the sum, or the mean, of the vectors or matrices of a table, and an exit status: 1 if not most are in it.

    Empty ones, and ones of another size than the first, are left out. Raises Nnet3Error if nothing is left.
    """
    total, count, left_out = np.zeros(0), 0, 0
    with tables[0](source) as table:
        for key, values in table:
            if values.size == 0:
                say(f"warning: {source}: {key}: left out: it is empty")
            if values.size == 0 or (count and not _fits(values, total, f"{source}: {key}")):
                left_out += 1
                continue
            total = values.astype(np.float64) if count == 0 else total + values
            count += 1
    if count == 0:
        raise Nnet3Error(f"{source}: there is nothing to sum")
    say(f"{count} entries {'averaged' if average else 'summed'}, {left_out} left out")
    return (total / count if average else total), int(left_out >= count)


def _fits(values: np.ndarray, other: np.ndarray, where: str) -> bool:
    """Returns whether two vectors or matrices are equally large, and warns if not."""
    if values.shape != other.shape:
        say(f"warning: {where}: left out: expected {_size(other)} numbers, got {_size(values)}")
    return values.shape == other.shape


def _size(values: np.ndarray) -> str:
    return " x ".join(map(str, values.shape))


def sum_by_key(sources: Sequence[str], output: str, factors: Sequence[float], tables: Tables) -> int:
    """Writes sums of what several tables have for the keys of the first one, times `factors`, one a table.

    What a table lacks, or has in another size, is not in the sum. `tables` open, look up and write. Returns 1, an exit
    status, if not most sums are whole. Raises Nnet3Error for an empty table.
    """
    open_table, look_up, make = tables
    others = [look_up(name) for name in sources[1:]]
    missing = 0
    with open_table(sources[0]) as first, make(output) as writer:
        for key, values in first:
            total = values * np.float32(factors[0])
            for name, table, factor in zip(sources[1:], others, factors[1:], strict=True):
                other = table.get(key)
                if other is None:
                    missing += 1
                    say(f"warning: {name} has no '{key}': the others are summed")
                elif _fits(other, values, f"{name}: {key}"):
                    total = total + other * np.float32(factor)
            writer.write(key, total)
        if writer.count == 0:
            raise Nnet3Error(f"{sources[0]}: the table is empty")
        say(f"{writer.count} sums; {missing} entries were missing")
        return int(missing >= writer.count - missing)


def _sum_of_files(sources: Sequence[str]) -> np.ndarray:
    """Returns the sum of vectors in files, as long as the longest."""
    total = np.zeros(0, np.float32)
    for name in sources:
        short, long = sorted([total, open_file(name).whole(Reader.vector)], key=len)
        total = long.copy()
        total[: len(short)] += short
    return total
