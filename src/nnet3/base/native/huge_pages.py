"""Memory in huge pages: 2 MB instead of 4 KB, so that processors look up fewer addresses.

Many systems give huge pages to memory for which somebody asks (Linux: /sys/kernel/mm/transparent_hugepage/enabled).
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from functools import cache
from typing import Any

import torch
from torch import Tensor

_HUGE = 2**21  # bytes of a page
_ADVICE = 14  # MADV_HUGEPAGE
_AT_ONCE = 2**24  # floats that are asked for; memory which nobody writes to costs nothing
_LINE = 16  # floats of the cache

_lock = threading.Lock()
_free = torch.empty(0)  # the rest of what was asked for last


def zeros_for_long(*shape: int) -> Tensor:
    """Returns a matrix of float32 zeros on the CPU that lies behind the last one, in huge pages that they share.

    Memory goes back to the system when all neighbours are gone: it is for what is made together and stays.
    """
    global _free
    size = math.prod(shape)
    if _advise() is None or size == 0:
        return torch.zeros(shape, dtype=torch.float32, device="cpu")
    with _lock, torch.inference_mode(False):  # whoever asks next may be in another mode
        if len(_free) < size:
            _free = in_huge_pages(torch.empty(max(size, _AT_ONCE), dtype=torch.float32, device="cpu"))
        memory, _free = _free[:size], _free[-(-size // _LINE) * _LINE :]
        return memory.view(shape).zero_()


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
