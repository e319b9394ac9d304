"""Normalises means and variances of features by sums over utterances or speakers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3.errors import Nnet3Error
from nnet3.speech.arrays.aliases import Doubles, Rows

_LEAST_VARIANCE = 1e-20


def add_to_stats(stats: Doubles | None, features: Rows, weights: Rows | None = None) -> Doubles:
    """Returns statistics with the sums of features (frames, columns) added, in Kaldi's order and precision.

    Statistics are (2, columns + 1) float64: sums and the count, sums of squares and 0. `weights` (frames,): how much
    each frame counts. Raises Nnet3Error for features of another number of columns, weights of another number of frames,
    no frames, and sums that are not finite.
    """
    frames, columns = features.shape
    if frames == 0:
        raise Nnet3Error("it has no frames")
    if weights is not None and len(weights) != frames:
        raise Nnet3Error(f"there are {len(weights)} weights for {frames} frames")
    if stats is None:
        stats = np.zeros((2, columns + 1))
    if stats.shape[1] != columns + 1:
        raise Nnet3Error(f"it has {columns} columns, those before it have {stats.shape[1] - 1}")
    counted = np.ones(frames, np.float32) if weights is None else weights.astype(np.float32)
    counts = counted != 0  # a frame that counts nothing may even be NaN
    features, counted = features[counts], counted[counts]
    factors = counted[:, np.newaxis]
    added = np.zeros((len(features) + 1, 2, columns + 1))
    added[0] = stats
    with np.errstate(over="ignore", invalid="ignore"):
        added[1:, 0, :-1], added[1:, 0, -1] = features * factors, counted  # products in float32, sums in float64
        added[1:, 1, :-1] = features * features * factors
        total = np.asarray(np.cumsum(added, axis=0)[-1])  # one frame after the other, as Kaldi adds them
    if not np.isfinite(total).all():
        raise Nnet3Error("its sums are not finite: there is a NaN, an infinity, or a number whose square is too large")
    return total


@dataclass(frozen=True)
class Normalising:
    """Normalises features: means, variances too if wanted, or the reverse; some columns stay as they are."""

    variances: bool = False
    reverse: bool = False
    skipped: tuple[int, ...] = ()

    def apply(self, features: Rows, stats: Doubles) -> Rows:
        """Returns features (frames, columns) normalised by statistics (2, columns + 1), in float32 as Kaldi does.

        Statistics without squares, (1, columns + 1), will do for means. Raises Nnet3Error for statistics that do not
        fit, and for statistics that turn finite features into an infinity.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            normalised = self._apply(features, stats)
        if not (np.isfinite(normalised) | ~np.isfinite(features)).all():
            raise Nnet3Error("its features are not finite any more with these statistics: is one of the two damaged?")
        return normalised

    def _apply(self, features: Rows, stats: Doubles) -> Rows:
        columns = features.shape[1]
        if stats.shape not in ((2, columns + 1), (1, columns + 1)):
            raise Nnet3Error(f"its statistics are {stats.shape}, expected (2, {columns + 1}) for {columns} columns")
        if not np.isfinite(stats).all():
            raise Nnet3Error("its statistics have a NaN or an infinity")
        if self.variances and len(stats) == 1:
            raise Nnet3Error("its statistics have no squares, which --norm-vars needs")
        count = float(stats[0, -1])
        if not count >= 1:
            raise Nnet3Error(f"its statistics are of {count:g} frames")
        if any(column >= columns for column in self.skipped):
            raise Nnet3Error(f"--skip-dims names column {max(self.skipped)}, but there are {columns}, from 0")
        mean = stats[0, :-1] / count
        mean[list(self.skipped)] = 0.0
        if not self.variances:
            if self.reverse:
                return features + mean.astype(np.float32)
            sums = stats[0, :-1].copy()
            sums[list(self.skipped)] = 0.0
            return features + (float(np.float32(-1.0 / count)) * sums).astype(np.float32)
        variance = np.maximum(stats[1, :-1] / count - mean**2, _LEAST_VARIANCE)
        variance[list(self.skipped)] = 1.0
        deviation = np.sqrt(variance)
        if self.reverse:
            return features * deviation.astype(np.float32) + mean.astype(np.float32)
        scale = 1.0 / deviation
        return features * scale.astype(np.float32) + (-(mean * scale)).astype(np.float32)
