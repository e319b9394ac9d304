"""Histograms of tensors, as plain data for a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_BINS = 40


def histogram(name: str, tensor: Tensor) -> dict[str, Any]:
    """Returns shape, mean, standard deviation, range and counts in equal bins; numbers that are not finite are counted
    apart.
    """
    values = tensor.detach().to("cpu", torch.float32).flatten()
    finite = values[values.isfinite()]
    data: dict[str, Any] = {"name": name, "shape": list(tensor.shape), "bad": len(values) - len(finite)}
    if len(finite) == 0:
        return {**data, "counts": []}
    low, high = finite.min().item(), finite.max().item()
    counts = torch.histc(finite, bins=_BINS if high > low else 1, min=low, max=high)
    deviation = finite.std(unbiased=False).item()
    numbers = {"min": low, "max": high, "mean": finite.mean().item(), "std": deviation}
    return {**data, **{key: float(f"{value:.4g}") for key, value in numbers.items()}, "counts": counts.int().tolist()}


def histograms(tensors: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """Returns histograms of the tensors that are not empty."""
    return [histogram(name, tensor) for name, tensor in tensors.items() if tensor.numel()]
