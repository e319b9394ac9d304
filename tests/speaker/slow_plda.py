"""PLDA by its definition: all vectors of a speaker as one long Gaussian vector."""

from __future__ import annotations

import numpy as np


def slow_log_density(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """Returns the log-density of a Gaussian."""
    sign, log_det = np.linalg.slogdet(covariance)
    assert sign == 1
    return -0.5 * float(len(x) * np.log(2 * np.pi) + log_det + (x - mean) @ np.linalg.solve(covariance, x - mean))


def slow_log_likelihood(vectors: np.ndarray, mean: np.ndarray, within: np.ndarray, between: np.ndarray) -> float:
    """Returns the log-likelihood of vectors (n, dim) of one speaker."""
    count = len(vectors)
    covariance = np.kron(np.ones((count, count)), between) + np.kron(np.eye(count), within)
    return slow_log_density(vectors.reshape(-1), np.tile(mean, count), covariance)


def random_covariance(rng: np.random.Generator, dim: int) -> np.ndarray:
    factor = rng.normal(size=(dim, dim))
    return factor @ factor.T + 0.2 * np.eye(dim)


def random_speakers(rng: np.random.Generator, dim: int, count: int, most: int = 6) -> list[np.ndarray]:
    """Returns the vectors (n, dim) of each speaker, of random covariances."""
    mean, within, between = rng.normal(size=dim), random_covariance(rng, dim), random_covariance(rng, dim)
    return [
        rng.multivariate_normal(rng.multivariate_normal(mean, between), within, size=rng.integers(1, most + 1))
        for _ in range(count)
    ]
