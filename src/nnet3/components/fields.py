"""Reading and writing what several component types have in their files and config lines, with the checks it needs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader, Writer, load_matrix, load_vector
from nnet3.text import ConfigLine
from nnet3.text.values import Rule

_MOST_INPUTS = 100_000  # of one output; x-vectors have 10001
_MOST_FRAMES = 1 << 24


def too_wide(num_inputs: int, num_frames: int) -> str:
    """Returns why an output cannot look at `num_inputs` inputs within `num_frames`, "" if it can.

    Memory is taken for each of them, so a damaged file must not ask for any number.
    """
    if num_inputs > _MOST_INPUTS or num_frames > _MOST_FRAMES:
        wide = f"{num_inputs} inputs over {num_frames} frames"
        return f"an output may look at {_MOST_INPUTS} inputs over {_MOST_FRAMES} frames at most, not {wide}"
    return ""


def read_number(reader: Reader, what: str, rule: Rule, *, integer: bool = False) -> float:
    """A finite number, or an int32, that keeps a rule."""
    start = reader.position
    value = reader.int32() if integer else reader.real()
    if not np.isfinite(value) or not rule.holds(value):
        raise reader.error_at(start, f"{what} must be {rule.words or 'a finite number'}, got {value:g}")
    return value


def read_matrix(reader: Reader, what: str, rows: int | None = None, columns: int | None = None) -> Tensor:
    """A float32 matrix that is not empty and has the given size."""
    start = reader.position
    matrix = reader.matrix()
    if matrix.size == 0 or (rows or matrix.shape[0], columns or matrix.shape[1]) != matrix.shape:
        wanted = f"{rows or 'rows'} x {columns or 'columns'}" if rows or columns else "a matrix that is not empty"
        raise reader.error_at(start, f"{what} must be {wanted}, got {matrix.shape[0]} x {matrix.shape[1]}")
    return torch.from_numpy(matrix)


def read_vector(reader: Reader, what: str, dim: int | None = None) -> Tensor:
    """A float32 vector that is not empty and has the given dimension."""
    start = reader.position
    vector = reader.vector()
    if vector.size == 0 or vector.size != (dim or vector.size):
        wanted = f"{dim} elements" if dim else "at least one element"
        raise reader.error_at(start, f"{what} must have {wanted}, got {vector.size}")
    return torch.from_numpy(vector)


def write_matrix(writer: Writer, matrix: Tensor) -> None:
    writer.matrix(_float32(matrix))


def write_vector(writer: Writer, vector: Tensor) -> None:
    writer.vector(_float32(vector))


def _float32(tensor: Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float32).numpy()


def load_matrix_key(line: ConfigLine, key: str) -> Tensor:
    """The float32 matrix in the file that a config key names; ConfigError at the key if it cannot be had."""
    return _load_key(line, key, load_matrix)


def load_vector_key(line: ConfigLine, key: str) -> Tensor:
    """The float32 vector in the file that a config key names; ConfigError at the key if it cannot be had."""
    return _load_key(line, key, load_vector)


def _load_key(line: ConfigLine, key: str, load: Callable[[str], np.ndarray]) -> Tensor:
    path = line.string(key)
    try:
        values = load(path)
    except ModelFormatError as error:
        raise line.error(f"cannot read {key}={path}: {error}", key) from error
    if values.size == 0:
        raise line.error(f"{key}={path} is empty", key)
    return torch.from_numpy(values)
