"""key_digest: a name for what a program depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_PLAIN = (str, bool, int, float, np.integer, np.floating)


def key_digest(key: Any) -> str:
    """A name for a key: equal for equal keys, in all processes. Raises TypeError for what keys cannot be made of."""
    digest = hashlib.blake2b(digest_size=20)
    _add_to_digest(digest.update, key)
    return digest.hexdigest()


def _add_to_digest(update: Callable[[bytes], None], value: Any) -> None:
    """Type and length first, so that different keys give different bytes."""
    if isinstance(value, np.ndarray):
        update(f"array {value.dtype.str} {value.shape}:".encode())
        update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, bytes):
        update(f"bytes {len(value)}:".encode() + value)
    elif value is None or isinstance(value, _PLAIN):
        kind = "str" if isinstance(value, str) else type(value).__name__
        text = str(value) if isinstance(value, str) else repr(value)
        encoded = text.encode(errors="surrogatepass")
        update(f"{kind} {len(encoded)}:".encode() + encoded)
    elif is_dataclass(value) and not isinstance(value, type):
        update(f"{type(value).__name__} {len(fields(value))}:".encode())
        for field in fields(value):
            _add_to_digest(update, field.name)
            _add_to_digest(update, getattr(value, field.name))
    elif isinstance(value, Mapping):
        update(f"mapping {len(value)}:".encode())
        for name in sorted(value):
            _add_to_digest(update, name)
            _add_to_digest(update, value[name])
    elif isinstance(value, (set, frozenset)):
        update(f"set {len(value)}:".encode())
        for item in sorted(value):
            _add_to_digest(update, item)
    elif isinstance(value, (tuple, list)):
        update(f"sequence {len(value)}:".encode())
        for item in value:
            _add_to_digest(update, item)
    else:
        raise TypeError(f"a key of the cache cannot contain a {type(value).__name__}")
