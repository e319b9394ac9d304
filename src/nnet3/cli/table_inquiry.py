"""Copies tables of features and integers, and tells sizes."""

from __future__ import annotations

import numpy as np

from nnet3.cli.files import open_file, save
from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error
from nnet3.hmm.tree import ContextDependency
from nnet3.kaldi_io import (
    CompressionMethod,
    Writer,
    compress,
    int32_writer,
    int_vector_writer,
    matrix_writer,
    open_general_matrix_table,
    open_int_vector_table,
    open_matrix_table,
    read_alignment,
    write_alignment,
    write_wxfilename,
)
from nnet3.kaldi_io.general import GeneralMatrix, dense
from nnet3.kaldi_io.specifiers import is_table


def copy_int_vectors(source: str, output: str, binary: bool) -> None:
    """Copies a table of vectors of integers, or the one in a file."""
    _check_both(source, output)
    if is_table(source):
        with open_int_vector_table(source) as table, int_vector_writer(output) as writer:
            for key, vector in table:
                writer.write(key, vector)
            say(f"Copied {writer.count} vectors of int32.")
        return
    vector = read_alignment(open_file(source))
    save(output, binary, lambda writer: write_alignment(writer, vector))


def copy_features(source: str, output: str, binary: bool, method: int | None, lengths: str) -> None:
    """Copies a table of matrices, or the one in a file; with a `method` they become compressed, else full."""
    _check_both(source, output)

    def changed(matrix: GeneralMatrix) -> GeneralMatrix:
        return dense(matrix) if method is None else compress(dense(matrix), CompressionMethod(method))

    if not is_table(source):
        only = changed(open_file(source).general_matrix())
        save(output, binary, lambda file: file.general_matrix(only))
        return
    with open_general_matrix_table(source) as table, matrix_writer(output) as writer:
        counts = {}
        for key, matrix in table:
            writer.write(key, changed(matrix))
            counts[key] = matrix.shape[0]
        if not counts:
            raise Nnet3Error(f"{source}: there are no features")
        say(f"Copied {len(counts)} feature matrices.")
    if lengths:
        _write_numbers(lengths, counts)


def write_lengths(source: str, output: str) -> int:
    """Writes the number of rows of each matrix to a table, if one is named; returns their sum."""
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


def tree_lines(tree: str) -> list[str]:
    """Returns the lines that Kaldi's program prints."""
    dependency = ContextDependency.read(open_file(tree))
    return [
        f"num-pdfs {dependency.num_pdfs}",
        f"context-width {dependency.context_width}",
        f"central-position {dependency.central_position}",
    ]


def _write_numbers(output: str, numbers: dict[str, int]) -> None:
    with int32_writer(output) as writer:
        for key, number in numbers.items():
            writer.write(key, int(np.int32(number)))


def _check_both(source: str, output: str) -> None:
    if is_table(source) != is_table(output):
        raise Nnet3Error(f"{source}, {output}: give two tables or two files")
