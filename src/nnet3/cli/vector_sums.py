"""Sums of rows of matrices, and of vectors in tables and files."""

from __future__ import annotations

from collections.abc import Sequence

import click
import numpy as np

from nnet3.cli.files import open_file, save
from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import (
    Reader,
    TableReader,
    open_vector_table,
    random_access_vectors,
    vector_writer,
)
from nnet3.kaldi_io.specifiers import is_table


def sum_rows(matrices: str, output: str, average: bool) -> None:
    """Writes the sum, or the mean, of the rows of each matrix of a table."""
    with TableReader(matrices, lambda reader: reader.matrix(np.float64)) as table, vector_writer(output) as writer:
        for key, matrix in table:
            total = matrix.sum(0)
            writer.write(key, total / len(matrix) if average and len(matrix) else total)
        if writer.count == 0:
            raise Nnet3Error(f"{matrices}: there are no matrices")
        say(f"the rows of {writer.count} matrices summed")


def sum_vectors(sources: Sequence[str], output: str, binary: bool, average: bool) -> None:
    """Writes the sum of the vectors of one table, of those of equal keys of several tables, or of those of files.

    `average` acts on one table into a file. Raises UsageError for tables and files together.
    """
    tables, into_table = {is_table(name) for name in sources}, is_table(output)
    if tables == {True} and not into_table and len(sources) == 1:
        total = _sum_of_table(sources[0], average)
        save(output, binary, lambda writer: writer.vector(total))
        return
    if len(tables) > 1 or tables != {into_table}:
        raise click.UsageError("give tables and a table to write, files and a file to write, or a table and a file")
    if average:
        say("warning: --average acts on one table into a file only: these are summed")
    if into_table:
        _sum_by_key(sources, output)
    else:
        total = _sum_of_files(sources)
        save(output, binary, lambda writer: writer.vector(total))


def _sum_of_table(source: str, average: bool) -> np.ndarray:
    total, count = np.zeros(0), 0
    with open_vector_table(source) as table:
        for key, vector in table:
            total = vector.astype(np.float64) if count == 0 else total + _same_length(vector, total, f"{source}: {key}")
            count += 1
    if count == 0:
        raise Nnet3Error(f"{source}: there are no vectors")
    say(f"{count} vectors {'averaged' if average else 'summed'}")
    return total / count if average else total


def _same_length(vector: np.ndarray, other: np.ndarray, where: str) -> np.ndarray:
    if len(vector) != len(other):
        raise Nnet3Error(f"{where}: expected a vector of {len(other)} numbers, got {len(vector)}")
    return vector


def _sum_by_key(sources: Sequence[str], output: str) -> None:
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
                else:
                    total = total + _same_length(other, vector, f"{name}: {key}")
            writer.write(key, total)
        if writer.count == 0:
            raise Nnet3Error(f"{sources[0]}: there are no vectors")
        say(f"{writer.count} sums of vectors; {missing} vectors were missing")


def _sum_of_files(sources: Sequence[str]) -> np.ndarray:
    """Returns the sum of vectors in files, as long as the longest."""
    total = np.zeros(0, np.float32)
    for name in sources:
        reader = open_file(name)
        vector = _whole_vector(reader)
        short, long = sorted([total, vector], key=len)
        total = long.copy()
        total[: len(short)] += short
    return total


def _whole_vector(reader: Reader) -> np.ndarray:
    vector = reader.vector()
    reader.finish()
    return vector
