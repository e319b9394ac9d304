"""Checked fields of component files and config lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nnet3.base.text import read_config_lines
from nnet3.base.text.values import ANY, above, at_least
from nnet3.errors import ConfigError, ModelFormatError
from nnet3.kaldi_io import Reader, Writer
from nnet3.model.components.value_kinds import (
    load_matrix_key,
    load_vector_key,
    read_matrix,
    read_number,
    read_vector,
    write_matrix,
    write_vector,
)


def reader_of(text: str) -> Reader:
    return Reader(text.encode(), "<test>", binary=False)


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (lambda r: read_number(r, "<Dim>", at_least(1), integer=True), "0 ", "<Dim> must be >= 1, got 0"),
        (lambda r: read_number(r, "<Alpha>", at_least(0)), "-0.5 ", "<Alpha> must be >= 0, got -0.5"),
        (lambda r: read_number(r, "<Alpha>", above(0)), "0 ", "<Alpha> must be > 0, got 0"),
        (lambda r: read_number(r, "<Alpha>", at_least(0)), "nan ", "<Alpha> must be >= 0, got nan"),
        (lambda r: read_number(r, "<Alpha>", ANY), "inf ", "<Alpha> must be a finite number, got inf"),
        (lambda r: read_matrix(r, "<W>"), "[ ]\n", "<W> must be a matrix that is not empty, got 0 x 0"),
        (lambda r: read_matrix(r, "<W>", rows=2), "[\n 1 2 ]\n", "<W> must be 2 x columns, got 1 x 2"),
        (lambda r: read_matrix(r, "<W>", columns=3), "[\n 1 2 ]\n", "<W> must be rows x 3, got 1 x 2"),
        (lambda r: read_vector(r, "<b>"), "[ ]\n", "<b> must have at least one element, got 0"),
        (lambda r: read_vector(r, "<b>", 2), "[ 1 ]\n", "<b> must have 2 elements, got 1"),
    ],
)
def test_what_does_not_fit(read: Callable[[Reader], Any], text: str, message: str) -> None:
    with pytest.raises(ModelFormatError) as caught:
        read(reader_of(text))
    assert str(caught.value) == f"<test>: line 1, column 1: {message}"


def test_values_that_keep_their_rule_are_read() -> None:
    assert read_number(reader_of("1 "), "<Dim>", at_least(1), integer=True) == 1
    assert read_number(reader_of("0 "), "<Alpha>", at_least(0)) == 0.0
    assert read_number(reader_of("-2 "), "<Alpha>", ANY) == -2.0
    matrix = read_matrix(reader_of("[\n 1 2 ]\n"), "<W>", rows=1, columns=2)
    assert matrix.dtype == torch.float32
    matrix.add_(1)  # the tensors are trained in place
    assert read_vector(reader_of("[ 1 2 ]\n"), "<b>", 2).add_(1).tolist() == [2, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_any_dtype_is_written_as_float32(dtype: torch.dtype) -> None:
    writer = Writer(binary=False)
    write_matrix(writer, torch.tensor([[0.5, 2.0]], dtype=dtype).t())
    write_vector(writer, torch.tensor([0.25], dtype=dtype))
    assert writer.getvalue().decode() == " [\n  0.5 \n  2 ]\n [ 0.25 ]\n"


def test_files_named_in_a_config(tmp_path: Path) -> None:
    (tmp_path / "matrix").write_text(" [\n 1 2 ]\n")
    (tmp_path / "vector").write_text(" [ 1 2 ]\n")
    (tmp_path / "empty").write_text(" [ ]\n")
    text = f"c matrix={tmp_path}/matrix vector={tmp_path}/vector empty={tmp_path}/empty missing={tmp_path}/missing"
    (line,) = read_config_lines(text)
    assert load_matrix_key(line, "matrix").tolist() == [[1, 2]]
    assert load_vector_key(line, "vector").tolist() == [1, 2]
    for key, reason in (("empty", "is empty"), ("missing", "cannot read this file")):
        with pytest.raises(ConfigError, match=reason) as caught:
            load_vector_key(line, key)
        assert caught.value.span is not None
        assert caught.value.span.text[caught.value.span.column - 1 :].startswith(str(tmp_path / key))
