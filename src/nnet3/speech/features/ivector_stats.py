"""Statistics of an ivector and its estimate: the arithmetic of online extraction, for arrays of frames."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nnet3.base.options.recognizer import IvectorOptions
from nnet3.speech.arrays.aliases import Doubles, Integers, Singles
from nnet3.speech.features.ivector_files import IvectorExtractor, from_packed

_MOST_LEAST_POST = 0.99  # however small a frame's weight
_ITERATIONS = 15
_RESTART = 1e4  # change of the squared residual after which it is computed anew
_TINY = 2.2e-308


class LikelyGaussians(NamedTuple):
    """The most likely Gaussians of frames, best first: numbers and log-likelihoods, (frames, num_gselect)."""

    gaussians: Integers
    log_likelihoods: Singles


def best_gaussians(log_likelihoods: Singles, count: int) -> LikelyGaussians:
    """Returns the best `count` Gaussians of each row of log-likelihoods (frames, Gaussians)."""
    count = min(count, log_likelihoods.shape[1])
    rows = np.arange(len(log_likelihoods))[:, np.newaxis]
    best = np.argpartition(-log_likelihoods, count - 1, axis=1)[:, :count]
    order = np.argsort(-log_likelihoods[rows, best], axis=1, kind="stable")
    gaussians = best[rows, order]
    return LikelyGaussians(gaussians, log_likelihoods[rows, gaussians])


def posteriors(candidates: LikelyGaussians, weights: Doubles, options: IvectorOptions) -> Doubles:
    """Returns the posterior of each candidate, (frames, num_gselect), times posterior_scale and the frame's weight.

    Those less likely than `min_post` are 0. The less a frame weighs, the fewer Gaussians it has. Weights, (frames,),
    may be negative, but not 0.
    """
    least = np.minimum(_MOST_LEAST_POST, options.min_post / np.abs(weights))[:, np.newaxis]
    relative = candidates.log_likelihoods.astype(np.float64)
    relative -= relative[:, :1]
    with np.errstate(divide="ignore"):
        kept = np.where(relative > np.log(least), np.exp(relative), 0.0)
    kept[:, 0] = 1.0
    kept[:, 1:][kept[:, 1:] < least * kept.sum(axis=1, keepdims=True)] = 0.0
    return kept / kept.sum(axis=1, keepdims=True) * (options.posterior_scale * weights)[:, np.newaxis]


class IvectorStatistics:
    """Statistics of an ivector v: it minimises v^T Q v / 2 - L^T v, where the prior is part of Q and L.

    `count`: frames times posteriors. `linear`: L, (ivector_dim,). `quadratic`: the lower triangle of Q.
    """

    def __init__(self, extractor: IvectorExtractor, max_count: float = 0.0):
        size = extractor.ivector_dim
        self.extractor, self.max_count = extractor, max_count
        self.count = 0.0
        self.linear = np.zeros(size)
        self.quadratic = np.zeros(size * (size + 1) // 2)
        self._diagonal = np.arange(1, size + 1).cumsum() - 1  # positions in `quadratic`
        self._add_prior(1.0)

    def copy(self) -> IvectorStatistics:
        twin = IvectorStatistics(self.extractor, self.max_count)
        twin.count, twin.linear, twin.quadratic = self.count, self.linear.copy(), self.quadratic.copy()
        return twin

    def _add_prior(self, weight: float) -> None:
        self.linear[0] += self.extractor.offset * weight
        self.quadratic[self._diagonal] += weight

    def add(self, rows: Singles, gaussians: Integers, posteriors: Doubles) -> None:
        """Adds frames: `rows` is (frames, dim), the posteriors of some Gaussians (frames, any)."""
        used, positions = np.unique(gaussians[posteriors != 0], return_inverse=True)
        weights = np.zeros((len(rows), len(used)))
        weights[np.nonzero(posteriors)[0], positions] = posteriors[posteriors != 0]  # a frame names a Gaussian once
        first_order = weights.T @ rows  # (used, dim)
        self.linear += first_order.reshape(-1) @ self.extractor.weighted[used].reshape(-1, len(self.linear))
        self.quadratic += weights.sum(axis=0) @ self.extractor.quadratic[used]
        total = float(posteriors.sum())
        if self.max_count > 0:
            most = self.max_count
            self._add_prior((max(self.count + total, most) - max(self.count, most)) / most)
        self.count += total

    def scale(self, factor: float) -> None:
        """Scales the weight of the frames by `factor`, 0 to 1; the prior keeps its proper weight."""
        prior = 1 - factor
        if self.max_count > 0:
            most = self.max_count
            prior = (max(factor * self.count, most) - factor * max(self.count, most)) / most
        self.count *= factor
        self.linear *= factor
        self.quadratic *= factor
        self._add_prior(prior)

    def prior_mean(self) -> Doubles:
        """Returns the estimate without any frame."""
        mean = np.zeros(len(self.linear))
        mean[0] = self.extractor.offset
        return mean

    def estimate(self, start: Doubles) -> Doubles:
        """Returns the estimate, by at most 15 steps of conjugate gradients from `start`, the estimate before."""
        if self.count <= 0:
            return self.prior_mean()
        start = start.copy()
        if start[0] == 0:
            start[0] = self.extractor.offset
        return conjugate_gradients(from_packed(self.quadratic, len(start)), self.linear, start)


def conjugate_gradients(matrix: Doubles, target: Doubles, start: Doubles) -> Doubles:
    """Solves matrix x = target for a positive definite matrix, approximately; exactly if steps lead away from it."""
    solution = start
    residual = matrix @ solution - target
    direction = -residual
    first = norm = exact = float(residual @ residual)
    for _ in range(min(_ITERATIONS, len(target) + 5)):
        if norm <= _TINY:
            break
        product = matrix @ direction
        step = -float(direction @ residual) / float(direction @ product)
        solution = solution + step * direction
        residual = residual + step * product
        new = float(residual @ residual)
        if new < exact / _RESTART or new > exact * _RESTART:
            residual = matrix @ solution - target
            new = exact = float(residual @ residual)
        if new > _TINY:
            direction = new / norm * direction - residual
        norm = new
    grew = norm > first and norm > first + 1e-10 * float(target @ target)
    if grew or not math.isfinite(norm):
        return np.linalg.solve(matrix, target).astype(np.float64, copy=False)
    return solution


def as_output(estimate: Doubles, offset: float) -> Singles:
    """Returns an ivector (dim,) as networks get it: less the prior's mean, `offset` in element 0."""
    ivector = estimate.astype(np.float32)
    ivector[0] = np.float32(float(ivector[0]) - offset)
    return ivector
