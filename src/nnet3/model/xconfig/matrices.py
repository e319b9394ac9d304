"""The matrices of layers such as fixed-affine-layer: given, worked out by the layer, in a file, or the identity."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import torch

from nnet3.base.kaldi_io.load import load_matrix
from nnet3.base.text import did_you_mean
from nnet3.errors import ArgumentError, ConfigError, ModelFormatError, is_out_of_memory
from nnet3.model.components.base import Component
from nnet3.model.components.component_types import COMPONENT_TYPES
from nnet3.model.xconfig.expand import ExpandedLayer, ExpandedXconfig
from nnet3.model.xconfig.expansion import FINAL
from nnet3.model.xconfig.statements import ComponentStatement

MatrixLike = np.ndarray | torch.Tensor | str | os.PathLike[str]
_KEY = "affine-transform-file"


@dataclass(frozen=True)
class MatrixComponents:
    """Components whose matrices do not come from a config line, by name, and warnings."""

    components: dict[str, Component]
    warnings: list[str]


def matrix_components(
    expanded: ExpandedXconfig, files: Mapping[str, MatrixLike], which: str = FINAL
) -> MatrixComponents:
    """Returns the components of one of an xconfig's configs that want a matrix from a file.

    `files` gives matrices (output dim, input dim) or with the bias as one more column, or the paths of files, by the
    name in the xconfig, with or without its folder, or the name without its ending. A matrix neither given nor worked
    out nor in the named file becomes the identity, with a warning. Raises ConfigError for matrices of a wrong size
    and for names in `files` unknown to the layers.
    """
    components = [(layer, s) for layer, s in expanded.statements(which) if isinstance(s, ComponentStatement)]
    wanted = [(layer, statement) for layer, statement in components if _file(statement)]
    paths = [_file(statement) for _, statement in wanted]
    _check_names(files, paths)
    made: dict[str, Component] = {}
    warnings = []
    for (layer, statement), path in zip(wanted, paths, strict=True):
        matrix = _matrix(layer, path, files)
        if matrix is None:
            where = layer.layer.line.span.place if layer.layer.line else "<xconfig>"
            warnings.append(f"{where}: {layer.layer.name}: there is no file '{path}': the identity takes its place")
        try:
            if matrix is None:
                matrix = torch.eye(layer.layer["dim"], layer.layer.input_dim).numpy()
            made[statement.name] = _component(layer, statement, matrix)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise layer.layer.error("a matrix of this size does not fit into memory") from None
    return MatrixComponents(made, warnings)


def _file(statement: ComponentStatement) -> str:
    return statement.values.get("matrix", "")


def _matrix(expanded: ExpandedLayer, path: str, files: Mapping[str, MatrixLike]) -> np.ndarray | None:
    given = next((files[name] for name in _names(path) if name in files), None)
    if given is not None:
        return _load(expanded, given) if isinstance(given, str | os.PathLike) else _as_array(given, path)
    for computed in expanded.expansion.matrix_files:
        if computed.path == path:
            return computed.values.astype(np.float32)
    return _load(expanded, path) if os.path.exists(path) else None


def _load(expanded: ExpandedLayer, path: str | os.PathLike[str]) -> np.ndarray:
    try:
        return load_matrix(path)
    except ModelFormatError as error:
        raise expanded.layer.error(f"cannot read {os.fspath(path)}: {error}", _KEY) from error


def _as_array(given: np.ndarray | torch.Tensor, path: str) -> np.ndarray:
    array = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else given
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "fiu":
        shown = f"an array of shape {array.shape}" if isinstance(array, np.ndarray) else f"a {type(given).__name__}"
        raise ArgumentError(f"the matrix for '{path}' must be a matrix of numbers or a path, got {shown}")
    if not np.isfinite(array).all():
        raise ArgumentError(f"the matrix for '{path}' has elements that are not finite")
    return array


def _component(expanded: ExpandedLayer, statement: ComponentStatement, matrix: np.ndarray) -> Component:
    dim, input_dim = expanded.layer["dim"], expanded.layer.input_dim
    rows, columns = matrix.shape
    if rows != dim or columns not in (input_dim, input_dim + 1):
        hint = f"say dim={rows}" if columns in (input_dim, input_dim + 1) else "is it made for another input?"
        wanted = f"{dim} x {input_dim + 1}, the last column being the bias, or {dim} x {input_dim}"
        message = f"the matrix '{_file(statement)}' is {rows} x {columns}; it must be {wanted}"
        raise expanded.layer.error(message, _KEY, hint)
    whole = torch.zeros(dim, input_dim + 1)
    whole[:, :columns] = torch.from_numpy(matrix.astype(np.float32))
    values = {"linear_params": whole[:, :-1].contiguous(), "bias_params": whole[:, -1].contiguous()}
    return COMPONENT_TYPES[statement.type].from_values(values)


def _names(path: str) -> list[str]:
    """Returns the names by which an argument may call a file."""
    pure = PurePath(path)
    return [path, pure.name, pure.stem]


def _check_names(files: Mapping[str, MatrixLike], paths: list[str]) -> None:
    known = [name for path in paths for name in _names(path)]
    for name in files:
        if name not in known:
            hint = did_you_mean(name, known)
            layers = f"the files are {', '.join(paths)}" if paths else "no layer of this xconfig has one"
            raise ConfigError(f"no layer has a file '{name}': {layers}", None, hint)
