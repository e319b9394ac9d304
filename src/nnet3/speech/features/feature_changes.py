"""Makes features of features: differences in time, neighbours side by side, fewer or more frames, several kinds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnet3.errors import Nnet3Error
from nnet3.speech.arrays.aliases import Rows


def with_deltas(features: Rows, order: int = 2, window: int = 2) -> Rows:
    """Returns features (frames, columns) and their differences up to `order`, (frames, (order + 1) columns).

    A difference is the sum over j from -window to window of j times frame t + j, divided by the sum of j squared; the
    next order is the difference of that. Frames before the first and behind the last are equal to these (Kaldi:
    add-deltas).
    """
    weights = np.ones(1)
    each = np.arange(-window, window + 1)
    parts = [features]
    for _ in range(order):
        weights = np.convolve(weights, each) / float((each**2).sum())
        reach = len(weights) // 2
        padded = np.pad(features, ((reach, reach), (0, 0)), mode="edge")
        total = np.zeros_like(features)
        for offset, weight in enumerate(weights.astype(np.float32)):
            if weight != 0:
                total += weight * padded[offset : offset + len(features)]
        parts.append(total)
    return np.concatenate(parts, axis=1)


def spliced(features: Rows, left: int, right: int) -> Rows:
    """Returns each frame between its neighbours, oldest first: (frames, (left + 1 + right) columns).

    Before the first frame and behind the last, the first and the last are repeated (Kaldi: splice-feats).
    """
    padded = np.pad(features, ((left, right), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, left + 1 + right, axis=0)  # (frames, columns, window)
    return windows.transpose(0, 2, 1).reshape(len(features), -1)


def subsampled(features: Rows, step: int, offset: int = 0) -> Rows:
    """Returns every `step`-th frame from `offset` on, or, if `step` < 0, each frame -step times (subsample-feats).

    Raises Nnet3Error if no frame is left.
    """
    if step < 0:
        return np.repeat(features, -step, axis=0)
    if offset >= len(features):
        raise Nnet3Error(f"no frame is left of {len(features)}, from frame {offset} on")
    return features[offset::step]


def shifted(features: Rows, frames: int) -> Rows:
    """Returns features `frames` later, as many as before; the first or the last one fills up (Kaldi: shift-feats)."""
    return features[np.clip(np.arange(len(features)) - frames, 0, len(features) - 1)]


def pasted(parts: Sequence[Rows], tolerance: int = 0) -> Rows:
    """Returns features of the same utterance side by side (Kaldi: paste-feats).

    Their numbers of frames may differ by `tolerance`; the smallest counts. Raises Nnet3Error if they differ by more.
    """
    counts = [len(part) for part in parts]
    if max(counts) - min(counts) > tolerance or min(counts) == 0:
        raise Nnet3Error(f"its tables have {', '.join(map(str, counts))} frames, expected equally many")
    return np.concatenate([part[: min(counts)] for part in parts], axis=1)
