"""Files of an ivector extractor: the background model (final.dubm), the extractor (final.ie), statistics for CMVN."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nnet3.base.kaldi_io.load import load_matrix
from nnet3.base.kaldi_io.reader import Reader
from nnet3.errors import ModelFormatError
from nnet3.speech.arrays.aliases import Doubles, Singles

_GMM_BEGIN, _GMM_END = ("<DiagGMM>", "<DiagGMMBegin>"), ("</DiagGMM>", "<DiagGMMEnd>")
_MOST_BYTES = 4 << 30  # of the products of an extractor's matrices
_LARGEST = 1e12  # of a number of a model; those of trained models are below 1e6


@dataclass(frozen=True, eq=False)
class DiagonalGmm:
    """Gaussians with diagonal covariances; `means_inv_vars` and `inv_vars` are (Gaussians, dim)."""

    weights: Singles
    means_inv_vars: Singles
    inv_vars: Singles

    @property
    def dim(self) -> int:
        return self.inv_vars.shape[1]

    @cached_property
    def constants(self) -> Singles:
        """The constant part of each log-likelihood, (Gaussians,)."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights, dtype=np.float64) - 0.5 * self.dim * math.log(2 * math.pi)
        inverse = self.inv_vars.astype(np.float64)
        logs += 0.5 * np.log(inverse).sum(axis=1) - 0.5 * (np.square(self.means_inv_vars) / inverse).sum(axis=1)
        return logs.astype(np.float32)

    def log_likelihoods(self, rows: Singles) -> Singles:
        """Returns log weight + log density of each Gaussian, (rows, Gaussians)."""
        return self.constants + rows @ self.means_inv_vars.T - 0.5 * (np.square(rows) @ self.inv_vars.T)


@dataclass(frozen=True, eq=False)
class IvectorExtractor:
    """The subspace of an ivector extractor: the mean of Gaussian i is projections[i] v.

    `projections` is (Gaussians, dim, ivector_dim), `precisions` (Gaussians, dim (dim + 1) / 2), the lower triangles of
    the inverse covariances. `offset` is the first element of the mean of the prior of v, whose others are 0.
    """

    projections: Doubles
    precisions: Doubles
    offset: float

    @property
    def num_gaussians(self) -> int:
        return self.projections.shape[0]

    @property
    def dim(self) -> int:
        return self.projections.shape[1]

    @property
    def ivector_dim(self) -> int:
        return self.projections.shape[2]

    @cached_property
    def weighted(self) -> Doubles:
        """precision times projection, (Gaussians, dim, ivector_dim)."""
        return from_packed(self.precisions, self.dim) @ self.projections

    @cached_property
    def quadratic(self) -> Doubles:
        """projection^T precision projection, lower triangles, (Gaussians, ivector_dim (ivector_dim + 1) / 2)."""
        size = self.ivector_dim
        packed = np.empty((self.num_gaussians, size * (size + 1) // 2))
        rows, columns = np.tril_indices(size)
        for row, projection, weighted in zip(packed, self.projections, self.weighted, strict=True):
            row[:] = (projection.T @ weighted)[rows, columns]
        return packed


def from_packed(packed: Doubles, size: int) -> Doubles:
    """Returns the symmetric matrices (..., size, size) of lower triangles (..., size (size + 1) / 2)."""
    rows, columns = np.tril_indices(size)
    full = np.empty((*packed.shape[:-1], size, size))
    full[..., rows, columns] = packed
    full[..., columns, rows] = packed
    return full


def check_magnitude(what: str, numbers: Doubles | Singles, source: str = "") -> None:
    """Raises ModelFormatError for numbers that are not finite, or whose products with features would not be."""
    largest = float(np.abs(numbers).max(initial=0.0))
    if not largest <= _LARGEST:
        raise ModelFormatError(f"{what} must have finite numbers up to {_LARGEST:g}, got {largest:g}", source)


def load_diagonal_gmm(path: str | os.PathLike[str]) -> DiagonalGmm:
    """Loads a `final.dubm`. Raises ModelFormatError; the constants that are stored there are not used."""
    reader = Reader.open(path)
    reader.expect(*_GMM_BEGIN)
    if reader.accept("<GCONSTS>"):
        reader.vector()
    reader.expect("<WEIGHTS>")
    start = reader.position
    weights = reader.vector()
    means_inv_vars = reader.after("<MEANS_INVVARS>").matrix()
    inv_vars = reader.after("<INV_VARS>").matrix()
    reader.expect(*_GMM_END)
    reader.finish()
    shape = (len(weights), inv_vars.shape[1])
    if len(weights) == 0 or means_inv_vars.shape != shape or inv_vars.shape != shape:
        raise reader.error_at(
            start,
            f"{len(weights)} weights, means {means_inv_vars.shape} and inverse variances {inv_vars.shape} are not of "
            "one number of Gaussians of one dimension",
        )
    gmm = DiagonalGmm(weights, means_inv_vars, inv_vars)
    for what, numbers in (("weights", weights), ("means", means_inv_vars), ("inverse variances", inv_vars)):
        check_magnitude(f"the {what} of Gaussians", numbers, os.fspath(path))
    good = (weights >= 0) & (inv_vars >= 1 / _LARGEST).all(axis=1)
    if not good.all():
        raise reader.error_at(
            start, f"Gaussian {int(np.argmin(good))} is none: a weight is negative, or a variance not positive"
        )
    return gmm


def load_ivector_extractor(path: str | os.PathLike[str]) -> IvectorExtractor:
    """Loads a `final.ie`. Raises ModelFormatError, also for an extractor with weights that depend on the ivector."""
    reader = Reader.open(path)
    reader.expect("<IvectorExtractor>")
    reader.expect("<w>")
    if reader.matrix().size:
        raise reader.error("the weights of this extractor depend on the ivector, which online extraction cannot have")
    reader.after("<w_vec>").vector(np.float64)
    reader.expect("<M>")
    start, count = reader.position, reader.size("the list of projections")
    if count == 0:
        raise reader.error_at(start, "an extractor must have a Gaussian")
    first = reader.matrix(np.float64)
    dim, size = first.shape
    if 4 * count * size * (size + 1) > _MOST_BYTES:
        raise reader.error_at(start, f"{count} Gaussians with ivectors of {size} take more than 4 GiB")
    reader.need((count - 1) * first.size, "the other projections")
    projections = np.empty((count, dim, size))
    projections[0] = first
    for number in range(1, count):
        start, matrix = reader.position, reader.matrix(np.float64)
        if matrix.shape != first.shape:
            raise reader.error_at(start, f"projection {number} is {matrix.shape}, the first one {first.shape}")
        projections[number] = matrix
    reader.expect("<SigmaInv>")
    precisions = np.empty((count, dim * (dim + 1) // 2))
    for number in range(count):
        start, packed = reader.position, reader.packed()
        if len(packed) != precisions.shape[1]:
            raise reader.error_at(start, f"inverse covariance {number} is not {dim} x {dim}")
        precisions[number] = packed
    offset = reader.after("<IvectorOffset>").real()
    reader.expect("</IvectorExtractor>")
    reader.finish()
    if size == 0:
        raise ModelFormatError("the projections have no columns", os.fspath(path))
    for what, numbers in (("projections", projections), ("inverse covariances", precisions), ("offset", offset)):
        check_magnitude(f"the {what}", np.asarray(numbers), os.fspath(path))
    try:
        np.linalg.cholesky(from_packed(precisions, dim))
    except np.linalg.LinAlgError:
        raise ModelFormatError("an inverse covariance is not positive definite", os.fspath(path)) from None
    return IvectorExtractor(projections, precisions, offset)


def load_cmvn_stats(path: str | os.PathLike[str]) -> Doubles:
    """Loads statistics for CMVN, (2, dim + 1): sums and the count, sums of squares and 0. Raises ModelFormatError."""
    stats = load_matrix(path, np.float64)
    if stats.shape[0] != 2 or stats.shape[1] < 2:
        raise ModelFormatError(f"statistics for CMVN must be (2, dim + 1), got {stats.shape}", os.fspath(path))
    if not np.isfinite(stats).all() or not stats[0, -1] > 0:
        raise ModelFormatError(
            f"statistics for CMVN must be finite and have a count, got {stats[0, -1]:g}", os.fspath(path)
        )
    check_magnitude("means of features", stats[0, :-1] / stats[0, -1], os.fspath(path))
    check_magnitude("variances of features", np.sqrt(np.abs(stats[1, :-1] / stats[0, -1])), os.fspath(path))
    return stats
