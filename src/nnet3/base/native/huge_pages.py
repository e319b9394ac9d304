"""Memory in huge pages: 2 MB instead of 4 KB, so that processors look up fewer addresses.

Many systems give huge pages to memory for which somebody asks (Linux: /sys/kernel/mm/transparent_hugepage/enabled).
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

from torch import Tensor

_HUGE = 2**21  # bytes of a page
_ADVICE = 14  # MADV_HUGEPAGE


def in_huge_pages(memory: Tensor) -> Tensor:
    """Asks for huge pages for a tensor that nobody has written to, and returns the tensor."""
    advise = _advise()
    if advise is not None and memory.is_cpu:
        first, end = -(-memory.data_ptr() // _HUGE), (memory.data_ptr() + memory.nbytes) // _HUGE
        if first < end:
            advise(first * _HUGE, (end - first) * _HUGE, _ADVICE)  # where the system refuses, pages stay small
    return memory


@cache
def _advise() -> Any:
    """Returns the function of the C library that advises the system about memory; None elsewhere than on Linux."""
    try:
        advise = ctypes.CDLL(None).madvise if sys.platform == "linux" else None
    except (OSError, AttributeError):
        return None
    if advise is not None:
        advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return advise
