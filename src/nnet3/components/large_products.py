"""Large products of float32 matrices, by the library that is fastest at them here.

PyTorch multiplies by MKL, which on processors of AMD leaves AVX-512 unused; oneDNN, which PyTorch has too, uses it.
Measured on an EPYC, one thread: 256 x 1024 by 1024 x 1024 takes 6.3 ms by MKL and 5.4 ms by oneDNN.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from torch import Tensor

_LARGE = 2**25  # multiplications from which it pays to copy the product to where it is wanted
_CPU_INFO = Path("/proc/cpuinfo")


def is_by_onednn(left: Tensor, right: Tensor) -> bool:
    """True if oneDNN multiplies these matrices faster than MKL does."""
    if left.size(0) * right.size(0) * right.size(1) < _LARGE or left.dtype != torch.float32:
        return False
    return left.device.type == "cpu" and left.size(0) > 1 and _onednn_is_faster()


def product_by_onednn(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """left right, (rows, columns), plus a bias (columns,)."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(left, right.T, bias, "none", [], "")
    return found


@cache
def _onednn_is_faster() -> bool:
    """True on processors of AMD that have AVX-512, where this PyTorch has the function."""
    if not torch.backends.mkldnn.is_available() or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    if not _CPU_INFO.exists() or "AuthenticAMD" not in _CPU_INFO.read_text(errors="replace"):
        return False
    left, right = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(3, 4)
    try:
        return torch.equal(product_by_onednn(left, right, torch.ones(4)), left @ right + 1)
    except (AttributeError, RuntimeError):
        return False
