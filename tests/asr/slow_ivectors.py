"""Online ivectors frame by frame and number by number, as the formulas say them: an oracle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnet3.asr import IvectorModel
from nnet3.asr.ivector_files import DiagonalGmm, from_packed
from nnet3.options import IvectorOptions, OnlineCmvnOptions


def normalized(
    rows: np.ndarray, options: OnlineCmvnOptions, everybody: np.ndarray, speaker: np.ndarray | None = None
) -> np.ndarray:
    """Normalises each frame with the statistics of its own time."""
    window, result = options.cmn_window, []
    for t, row in enumerate(rows.astype(np.float64)):
        own = rows[max(0, t - window + 1) : t + 1].astype(np.float64)
        total, squares, count = own.sum(axis=0), (own**2).sum(axis=0), float(len(own))
        if speaker is not None and count < window and speaker[0, -1] > 0:
            k = min(window - count, options.speaker_frames, speaker[0, -1])
            total, squares = (s + k / speaker[0, -1] * p[:-1] for s, p in zip((total, squares), speaker, strict=True))
            count += k
        if count < window:
            k = min(window - count, options.global_frames)
            total, squares = (
                s + k / everybody[0, -1] * p[:-1] for s, p in zip((total, squares), everybody, strict=True)
            )
            count += k
        mean = total / count
        output = row.copy()
        for d in range(len(row)):
            if d not in options.skip_dims and options.normalize_mean:
                output[d] -= mean[d]
                if options.normalize_variance:
                    output[d] /= math.sqrt(max(squares[d] / count - mean[d] ** 2, 1e-20))
        result.append(output)
    return np.array(result)


def spliced(rows: np.ndarray, left: int, right: int, matrix: np.ndarray) -> np.ndarray:
    outputs = []
    for t in range(len(rows)):
        context = np.concatenate([rows[min(max(u, 0), len(rows) - 1)] for u in range(t - left, t + right + 1)])
        if matrix.shape[1] > len(context):
            context = np.append(context, 1.0)
        outputs.append(matrix.astype(np.float64) @ context)
    return np.array(outputs)


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
        around = (splice.left_context, splice.right_context, model.transform)
        plain = spliced(features.astype(np.float64), *around)
        normal = spliced(normalized(features, model.cmvn, model.cmvn_stats, speaker_stats), *around)
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
