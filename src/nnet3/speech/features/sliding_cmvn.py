"""Normalises features by a window that slides over the frames."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.base.options.speaker import SlidingCmvnOptions
from nnet3.errors import Nnet3Error
from nnet3.speech.arrays.aliases import Doubles, Rows

_LEAST_VARIANCE = 1e-10


def windows_of(frames: int, options: SlidingCmvnOptions) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the first frame of each frame's window and the frame behind its last, (frames,) each.

    A window that would reach over an end is moved inside, and is all frames if there are too few. A window in front of
    a frame has one frame more than the options say, as in Kaldi.

    >>> windows_of(5, SlidingCmvnOptions(cmn_window=3, center=True))
    (array([0, 0, 1, 2, 2]), array([3, 3, 4, 5, 5]))
    >>> windows_of(5, SlidingCmvnOptions(cmn_window=2, min_cmn_window=2))
    (array([0, 0, 0, 1, 2]), array([2, 2, 3, 4, 5]))
    """
    frame = np.arange(frames)
    if options.center:
        first = np.maximum(frame - options.cmn_window // 2, 0)
        end = first + options.cmn_window
    else:
        first = np.maximum(frame - options.cmn_window, 0)
        end = np.maximum(frame + 1, options.min_cmn_window)
    first = np.maximum(first - np.maximum(end - frames, 0), 0)
    return first, np.minimum(end, frames)


def normalised_by_window(features: Rows, options: SlidingCmvnOptions) -> tuple[Rows, int]:
    """Returns features (frames, columns) less the mean of each frame's window, and how many variances were floored.

    With `norm_vars` they are divided by the window's standard deviation too; a frame alone in its window becomes 0.
    Raises Nnet3Error for no frames and for features that are not finite.
    """
    if not features.size:
        raise Nnet3Error("it has no frames")
    if not np.isfinite(features).all():
        raise Nnet3Error("its features have a NaN or an infinity")
    exact = features.astype(np.float64)
    level = exact.mean(axis=0)
    moved = exact - level  # sums of small numbers keep more digits
    first, end = windows_of(len(features), options)
    count = (end - first)[:, np.newaxis].astype(np.float64)
    mean = _sums(moved, first, end) / count
    normalised, floored = moved - mean, 0
    if options.norm_vars:
        variance = _sums(moved**2, first, end) / count - mean**2
        floored = int(((variance < _LEAST_VARIANCE) & (count > 1)).sum())
        normalised *= np.where(count > 1, 1 / np.sqrt(np.maximum(variance, _LEAST_VARIANCE)), 0.0)
    return normalised.astype(np.float32), floored


def _sums(rows: Doubles, first: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> Doubles:
    """Returns the sums of the rows first .. end - 1, for each of several pairs."""
    sums = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])
    return np.asarray(sums[end] - sums[first])
