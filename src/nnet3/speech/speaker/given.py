"""Vectors that users give, as arrays of finite numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnet3.base.index.given_numbers import real_numbers
from nnet3.errors import Nnet3Error
from nnet3.speech.arrays.aliases import Doubles


def vectors_of(values: Any, refusal: str, dim: int | None = None) -> Doubles:
    """Returns vectors (n, dim), of any one dimension without `dim`.

    Raises Nnet3Error, `refusal` and what was given, for what is no such numbers; and for a NaN or an infinity.
    """
    rows = real_numbers(values, refusal)
    if rows.ndim != 2 or (dim is not None and rows.shape[1] != dim):
        raise Nnet3Error(f"{refusal}, got an array {rows.shape}")
    if not np.isfinite(rows).all():
        raise Nnet3Error("a vector has a NaN or an infinity")
    return rows
