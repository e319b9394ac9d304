"""Online ivectors frame by frame and number by number, as the formulas say them: an oracle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nnet3.asr import IvectorModel
from nnet3.options import IvectorOptions, OnlineCmvnOptions
from nnet3.speech.features.ivector_files import DiagonalGmm, from_packed


class SlowCmvn:
    """Normalises one frame at a time; `stats` are what the frame before it left."""

    def __init__(
        self, rows: np.ndarray, options: OnlineCmvnOptions, everybody: np.ndarray, speaker: np.ndarray | None = None
    ):
        self.rows, self.options = rows.astype(np.float64), options
        self.everybody, self.speaker = everybody, speaker
        self.stats = np.zeros_like(everybody)

    def at(self, t: int) -> np.ndarray:
        options, row = self.options, self.rows[t]
        if row[0] > options.min_energy:
            own = self.rows[max(0, t - options.cmn_window + 1) : t + 1]
            self.stats = np.array([[*own.sum(axis=0), len(own)], [*(own**2).sum(axis=0), 0]])
        for stats, most in ((self.speaker, options.speaker_frames), (self.everybody, options.global_frames)):
            if stats is not None and stats[0, -1] > 0:
                k = min(options.cmn_window - self.stats[0, -1], most)
                k = min(k, stats[0, -1]) if stats is self.speaker else k
                if k > 0:
                    self.stats = self.stats + k / stats[0, -1] * stats
                    self.stats[1, -1] = 0
        count = self.stats[0, -1] or 1.0
        output = row.copy()
        for d in range(len(row)):
            if d not in options.skip_dims and options.normalize_mean:
                mean = self.stats[0, d] / count
                output[d] -= mean
                if options.normalize_variance:
                    output[d] /= math.sqrt(max(self.stats[1, d] / count - mean**2, 1e-20))
        return output


def spliced(frame_at: Callable[[int], np.ndarray], count: int, left: int, right: int, matrix: np.ndarray) -> np.ndarray:
    """Returns the outputs of `count` frames, each of which is asked for anew by every neighbour."""
    outputs = []
    for t in range(count):
        context = np.concatenate([frame_at(min(max(u, 0), count - 1)) for u in range(t - left, t + right + 1)])
        if matrix.shape[1] > len(context):
            context = np.append(context, 1.0)
        outputs.append(matrix.astype(np.float64) @ context)
    return np.array(outputs).reshape(count, len(matrix))


def log_likelihoods(gmm: DiagonalGmm, row: np.ndarray) -> list[float]:
    """Returns the logarithm of weight times density, from means and variances."""
    result = []
    for weight, mean_inv_var, inv_var in zip(gmm.weights, gmm.means_inv_vars, gmm.inv_vars, strict=True):
        value = math.log(weight)
        for x, m, v in zip(row, mean_inv_var, inv_var, strict=True):
            value += -0.5 * math.log(2 * math.pi / v) - 0.5 * v * (x - m / v) ** 2
        result.append(value)
    return result


def posteriors(likelihoods: list[float], weight: float, options: IvectorOptions) -> dict[int, float]:
    best = max(likelihoods)
    least = min(0.99, options.min_post / abs(weight))
    bound = best + math.log(least) if least > 0 else -math.inf
    kept = [(math.exp(l - best), i) for i, l in enumerate(likelihoods) if l > bound]
    kept = sorted(kept, reverse=True)[: options.num_gselect]
    total = sum(q for q, _ in kept)
    cut = least * total
    while len(kept) > 1 and kept[-1][0] < cut:
        total -= kept.pop()[0]
    return {i: q / total * options.posterior_scale * weight for q, i in kept}


class SlowIvectors:
    """The ivectors of a whole stream of features; `speaker` is (CMVN statistics, count, Q, L) of the speaker."""

    def __init__(self, model: IvectorModel, features: np.ndarray, speaker: tuple[Any, ...] | None = None):
        self.model, self.features = model, features
        self.extractor, self.options = model.extractor, model.options
        splice, speaker_stats = model.splice, None if speaker is None else speaker[0]
        around = (len(features), splice.left_context, splice.right_context, model.transform)
        plain = spliced(lambda t: features[t].astype(np.float64), *around)
        normal = spliced(SlowCmvn(features, model.cmvn, model.cmvn_stats, speaker_stats).at, *around)
        self.rows = normal if self.options.online_cmvn_iextractor else plain
        self.likelihoods = [log_likelihoods(model.gmm, row) for row in normal]
        size = self.extractor.ivector_dim
        self.prior = np.zeros(size)
        self.prior[0] = self.extractor.offset
        self.count, self.quadratic, self.linear = (
            (0.0, np.eye(size), self.prior.copy()) if speaker is None else speaker[1:]
        )

    def add(self, frames: list[tuple[int, float]]) -> None:
        """Adds frames with weights, those of one frame together."""
        together: dict[int, float] = {}
        for frame, weight in frames:
            together[frame] = together.get(frame, 0.0) + weight
        for frame, weight in together.items():
            for i, gamma in posteriors(self.likelihoods[frame], weight, self.options).items() if weight else ():
                projection = self.extractor.projections[i]
                precision = from_packed(self.extractor.precisions[i], self.extractor.dim)
                self.linear = self.linear + gamma * projection.T @ precision @ self.rows[frame]
                self.quadratic = self.quadratic + gamma * projection.T @ precision @ projection
                most = self.options.max_count
                if most > 0:
                    more = (max(self.count + gamma, most) - max(self.count, most)) / most
                    self.linear = self.linear + more * self.prior
                    self.quadratic = self.quadratic + more * np.eye(len(self.prior))
                self.count += gamma

    def exact(self) -> np.ndarray:
        """Returns the ivector by an exact solution."""
        return np.linalg.solve(self.quadratic, self.linear) - self.prior if self.count > 0 else 0 * self.prior
