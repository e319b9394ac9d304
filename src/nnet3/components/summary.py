"""Numbers and summaries of vectors as Kaldi prints them in info lines."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_PERCENTILES = (0, 1, 2, 5, 10, 20, 50, 80, 90, 95, 98, 99, 100)


def format_number(value: float, digits: int = 6) -> str:
    """Returns a number with `digits` significant digits, as C++ streams print it."""
    return f"{value:.{digits}g}".replace("nan", "-nan" if np.signbit(value) else "nan")


def _element(value: float) -> str:
    size = abs(value)
    if 10 <= size < 10000:
        return f"{value:.0f}"
    if size >= 0.995:
        return f"{value:.1f}"
    if size >= 0.01:
        return f"{value:.2f}"
    return f"{value:.1g}"


def summarize_vector(vector: Tensor | np.ndarray) -> str:
    """`[ v1 v2 ]` below 10 elements, else percentiles, mean and standard deviation."""
    values = np.asarray(vector, dtype=np.float64)
    if values.size < 10:
        return "[ " + "".join(f"{_element(v)} " for v in values) + "]"
    ordered = np.sort(values)
    shown = [_element(ordered[(values.size - 1) * q // 100]) for q in _PERCENTILES]
    parts = (",".join(shown[:4]), ",".join(shown[4:9]), ",".join(shown[9:]))
    with np.errstate(invalid="ignore", over="ignore"):  # of infinite values, or squared ones
        mean = values.mean()
        stddev = np.sqrt(max(0.0, float((values * values).mean() - mean * mean)))
    return (
        f"[percentiles(0,1,2,5 10,20,50,80,90 95,98,99,100)=({' '.join(parts)}), "
        f"mean={format_number(mean, 3)}, stddev={format_number(stddev, 3)}]"
    )


def least_and_most(name: str, tensor: Tensor) -> str:
    """`, NAME-min=m, NAME-max=m`."""
    least, most = (format_number(float(value)) for value in torch.aminmax(tensor))
    return f", {name}-min={least}, {name}-max={most}"


def mean_stddev(name: str, tensor: Tensor) -> str:
    """`, NAME-{mean,stddev}=m,s` with 4 significant digits, in float32 and not floored, as Kaldi does it."""
    values = tensor.detach().cpu().float().numpy().ravel()
    if values.size == 0:
        return f", {name}-{{mean,stddev}}=0,0"
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.float32(values.mean(dtype=np.float32))
        square = np.float32(np.mean(values * values, dtype=np.float32))
        variance = np.float32(np.float64(square) - np.float64(mean) ** 2)  # rounded once: Kaldi's is a fused one
        stddev = np.sqrt(variance)  # NaN where rounding takes it below 0, as in Kaldi
    return f", {name}-{{mean,stddev}}={format_number(float(mean), 4)},{format_number(float(stddev), 4)}"


def rms(name: str, tensor: Tensor) -> str:
    """`, NAME-rms=r`."""
    values = tensor.detach().double()
    value = float(values.square().mean().sqrt()) if values.numel() else 0.0
    return f", {name}-rms={format_number(value, 4)}"


def row_and_column_norms(name: str, matrix: Tensor) -> str:
    """`, NAME-row-norms=[...], NAME-col-norms=[...]` (Euclidean)."""
    values = matrix.detach().double().cpu()
    rows, columns = values.square().sum(1).sqrt(), values.square().sum(0).sqrt()
    return f", {name}-row-norms={summarize_vector(rows)}, {name}-col-norms={summarize_vector(columns)}"
