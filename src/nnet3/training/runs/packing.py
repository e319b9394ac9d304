"""Saves states as safetensors files: tensors as such, all else as JSON in the header; nothing is ever executed."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.base.text import read_json
from nnet3.errors import ModelFormatError, Nnet3Error, shown

try:
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file
except ImportError as _error:  # pragma: no cover
    _missing: ImportError | None = _error
else:
    _missing = None

_TREE = "tree"
_PLAIN = (str, int, float, bool, type(None))


Tensors = dict[str, Tensor]


def take_apart(state: Any) -> tuple[str, Tensors]:
    """Returns nested dicts, lists, tuples, numbers, texts, bytes, tensors and arrays as JSON, and the
    tensors by name."""
    tensors: Tensors = {}
    return json.dumps(_to_tree(state, tensors)), tensors


def put_together(tree: str, tensors: Tensors) -> Any:
    """Returns the state given to `take_apart`. Raises ValueError for a tree not made by `take_apart`."""
    try:
        return _from_tree(read_json(tree), tensors)
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"this is no tree of a state: {error}") from None


def check_alike(state: Any, example: Any, place: str = "") -> None:
    """Raises ValueError unless a state's values have the types of an example's values, where both have a value.

    Dicts may have different keys, lists different lengths, tensors different shapes and floats different sizes: the new
    owner of the state tells about errors in these. None in the example stands for any value.
    """
    kinds: Any = (int, float) if type(example) is float else (type(example),)
    if example is None:
        return
    if not isinstance(state, kinds) or isinstance(state, bool) != isinstance(example, bool):
        raise ValueError(f"the state{place} is {shown(state)}, expected a {type(example).__name__}")
    if isinstance(example, dict):
        for key in example.keys() & state.keys():
            check_alike(state[key], example[key], f"{place}.{key}")
    if isinstance(example, Tensor) and state.is_floating_point() != example.is_floating_point():
        raise ValueError(f"the state{place} is of {state.dtype}, expected {example.dtype}")


def save_parts(tree: str, tensors: Tensors, path: Path) -> None:
    """Writes the tree and the tensors of `take_apart`. Raises OSError if writing fails."""
    path.touch()
    mode = path.stat().st_mode & 0o777  # that of an ordinary file: safetensors would let nobody else read it
    try:
        save_file(tensors, path, metadata={_TREE: tree})
        path.chmod(mode)
    except SafetensorError as error:
        number = _system_error_number(str(error))
        raise OSError(number, os.strerror(number), str(path)) from None


def load_parts(path: Path) -> tuple[str, Tensors]:
    """Reads what `save_parts` wrote, to the CPU. Raises ModelFormatError for anything else."""
    try:
        with safe_open(path, framework="pt") as file:
            # Copies lie as all tensors do: how a sum rounds may depend on where the memory of its terms begins.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            return (file.metadata() or {})[_TREE], tensors
    except (SafetensorError, OSError, KeyError) as error:
        raise ModelFormatError(f"no saved state can be read from this: {error}", str(path)) from None


def check_can_save() -> None:
    """Raises Nnet3Error if safetensors is not installed."""
    if _missing is not None:
        raise Nnet3Error("checkpoints need safetensors: pip install safetensors") from _missing


def same(first: Any, second: Any) -> bool:
    """Returns true if two states are equal to the last bit."""
    (tree, tensors), (other_tree, others) = take_apart(first), take_apart(second)
    return tree == other_tree and all(same_bits(tensor, others[name]) for name, tensor in tensors.items())


def same_bits(first: Tensor, second: Tensor) -> bool:
    """Returns true for equal type, shape and bits: NaN is like itself, -0 is not like 0."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return torch.equal(first.reshape(-1).view(torch.uint8), second.reshape(-1).view(torch.uint8))


def _to_tree(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, dict):
        return {"dict": [[_to_tree(key, tensors), _to_tree(item, tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_to_tree(item, tensors) for item in value]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    name = str(len(tensors))
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"tensor": name}
    if isinstance(value, np.ndarray):
        tensors[name] = torch.from_numpy(np.array(value, order="C"))
        return {"array": name}
    raise TypeError(f"a {type(value).__name__} cannot be saved")


def _from_tree(tree: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(tree, _PLAIN):
        return tree
    ((kind, content),) = tree.items()
    if kind == "dict":
        return {_from_tree(key, tensors): _from_tree(item, tensors) for key, item in content}
    if kind in ("list", "tuple"):
        items = [_from_tree(item, tensors) for item in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind not in ("tensor", "array"):
        raise ValueError(f"unknown kind of value '{kind}'")
    return tensors[content] if kind == "tensor" else tensors[content].numpy()


def _system_error_number(message: str) -> int:
    """Returns the errno in a message of safetensors, `... (os error 28)`."""
    _, _, number = message.partition("os error ")
    digits = number.split(")")[0]
    return int(digits) if digits.isdecimal() else errno.EIO
