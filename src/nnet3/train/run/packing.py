"""States as one safetensors file: tensors as such, all else as JSON in its header; nothing in it is ever executed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.errors import ModelFormatError, Nnet3Error

try:
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file
except ImportError as _error:  # pragma: no cover
    _missing: ImportError | None = _error
else:
    _missing = None

_TREE = "tree"
_PLAIN = (str, int, float, bool, type(None))


def save_state(state: Any, path: Path) -> None:
    """Write dicts, lists, tuples, numbers, texts, bytes, tensors and arrays within each other. OSError if it fails."""
    tensors: dict[str, Tensor] = {}
    tree = _to_tree(state, tensors)
    try:
        save_file(tensors, path, metadata={_TREE: json.dumps(tree)})
    except SafetensorError as error:
        raise OSError(_system_error_number(str(error)), str(error), str(path)) from None


def load_state(path: Path) -> Any:
    """What `save_state` wrote, its tensors on the CPU. Raises ModelFormatError for anything else."""
    try:
        with safe_open(path, framework="pt") as file:
            tree = json.loads((file.metadata() or {})[_TREE])
            return _from_tree(tree, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise ModelFormatError(f"no saved state can be read from this: {error}", str(path)) from None


def check_can_save() -> None:
    """Raise Nnet3Error if safetensors is not installed."""
    if _missing is not None:
        raise Nnet3Error("checkpoints need safetensors: pip install safetensors") from _missing


def same(first: Any, second: Any) -> bool:
    """Whether two states are equal to the last bit."""
    tensors: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
    trees = [json.dumps(_to_tree(state, own)) for state, own in zip((first, second), tensors, strict=True)]
    return trees[0] == trees[1] and all(_same_bits(tensors[0][name], tensors[1][name]) for name in tensors[0])


def _same_bits(first: Tensor, second: Tensor) -> bool:
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
    """The errno in a message of safetensors, `... (os error 28)`; 5, an input/output error, if there is none."""
    _, _, number = message.partition("os error ")
    digits = number.split(")")[0]
    return int(digits) if digits.isdecimal() else 5
