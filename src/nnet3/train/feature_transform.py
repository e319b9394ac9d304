"""Estimates an LDA-like transform that prepares features for a network."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nnet3.errors import TrainingError
from nnet3.options import FeatureTransformOptions
from nnet3.train.lda_stats import LdaStats


@dataclass(frozen=True, eq=False)
class FeatureTransform:
    """`matrix` (rows, dim), or (rows, dim + 1) with an offset, float32; `cholesky` (dim, dim) of the covariance within
    classes; `log`: lines about singular values, as Kaldi has them."""

    matrix: np.ndarray
    cholesky: np.ndarray
    log: list[str] = field(default_factory=list)


def estimate_transform(stats: LdaStats, options: FeatureTransformOptions) -> FeatureTransform:
    """Returns the transform of statistics: LDA, whose rows count less where classes differ little.

    With W the covariance within classes, B that between them, W = C C^T and C^-1 B C^-T = U diag(d) U^T, d falling:
    row i is that of U^T C^-1 times sqrt((f + d_i) / (1 + d_i)), f the within-class factor; singular values are cut at
    the largest that is allowed; the offset makes the mean zero. Raises TrainingError for too few data.
    """
    dim = stats.first.shape[1]
    rows = dim if options.dim == -1 else options.dim
    if not 0 < rows <= dim:
        raise TrainingError(f"dim must be -1 or in 1 .. {dim}, the dimension of the features, got {rows}")
    if not stats.zero.sum() > 0:
        raise TrainingError("the statistics have no data")
    mean, total, between = stats.covariances()
    cholesky = _cholesky(total - between)
    inverse = np.linalg.inv(cholesky)
    left, singular, _ = np.linalg.svd(inverse @ between @ inverse.T)
    log = [
        f"Data count is {stats.zero.sum():g}",
        f"LDA singular values are  [ {' '.join(f'{value:g}' for value in singular)} ]",
        f"Sum of all singular values is {singular.sum():g}",
        f"Sum of selected singular values is {singular[:rows].sum():g}",
    ]
    matrix = (left.T @ inverse)[:rows].astype(np.float32)
    if options.within_class_factor != 1.0:
        factor = np.sqrt((options.within_class_factor + singular[:rows]) / (1.0 + singular[:rows]))
        matrix *= factor.astype(np.float32)[:, None]
    matrix = _with_ceiling(matrix, options.max_singular_value, log)
    if options.remove_offset:
        matrix = np.column_stack([matrix, -(matrix @ mean.astype(np.float32))])
    return FeatureTransform(matrix, cholesky, log)


def _cholesky(within: np.ndarray) -> np.ndarray:
    """Returns the lower factor of a covariance; one that is not positive definite gets a little on its diagonal."""
    smoothing = 0.001 * np.trace(within) / len(within)
    try:
        return np.linalg.cholesky(within)
    except np.linalg.LinAlgError:
        pass
    try:
        return np.linalg.cholesky(within + smoothing * np.eye(len(within)))
    except np.linalg.LinAlgError:
        raise TrainingError("the features do not vary within classes: give more data") from None


def _with_ceiling(matrix: np.ndarray, ceiling: float, log: list[str]) -> np.ndarray:
    """Returns the matrix with its singular values cut, and says so, if any is above the ceiling and this above 0."""
    if ceiling <= 0:
        return matrix
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    above = values > np.float32(ceiling)
    if not above.any():
        return matrix
    log.append(
        f"Applied ceiling to {above.sum()} out of {len(values)} singular values of transform using ceiling "
        f"{ceiling:g}, max is {values.max():g}"
    )
    cut: np.ndarray = (left * np.minimum(values, np.float32(ceiling))) @ right
    return cut
