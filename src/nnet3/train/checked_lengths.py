"""The lengths of the sequences of a padded batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from nnet3.errors import ArgumentError


def checked_lengths(lengths: Any, batch: int, frames: int) -> np.ndarray:
    """Frames of each sequence (batch,), int64, from 1 to `frames`. Raises ArgumentError for anything else."""
    given = lengths.detach().cpu().numpy() if isinstance(lengths, Tensor) else np.asarray(lengths)
    if given.shape != (batch,) or given.dtype.kind not in "iu":
        raise ArgumentError(
            f"lengths must be {batch} integers, one for each sequence, got {given.dtype} of shape {given.shape}"
        )
    if given.min() < 1 or given.max() > frames:
        raise ArgumentError(
            f"lengths must be from 1 to the {frames} frames of the batch, got {given.min()} to {given.max()}"
        )
    return given.astype(np.int64)
