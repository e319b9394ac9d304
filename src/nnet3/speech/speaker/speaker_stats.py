"""Statistics of vectors by speaker, and transforms made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from nnet3.base.options.speaker import SpeakerLdaOptions
from nnet3.errors import Nnet3Error, check_kind
from nnet3.speech.arrays.aliases import Doubles, Singles
from nnet3.speech.speaker.given import vectors_of

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, eq=False)
class SpeakerStats:
    """Of each speaker the mean (speakers, dim) and the number (speakers,) of vectors.

    `scatter` (dim, dim): the sum over all vectors x of (x - m) (x - m)^T, m the mean of the vector's speaker.
    """

    means: Doubles
    counts: npt.NDArray[np.int64]
    scatter: Doubles

    @classmethod
    def of_speakers(cls, speakers: Iterable[npt.NDArray[np.floating]]) -> Self:
        """Returns the statistics of speakers, given as arrays (vectors, dim).

        Raises Nnet3Error without speakers, and for other arrays, unequal dimensions, and numbers that are not finite.
        """
        means, counts, scatter = list[Doubles](), list[int](), np.zeros((0, 0))
        check_kind(speakers, Iterable, "vectors of speakers", "a list of arrays (vectors, dim)")
        for rows in speakers:
            refusal = "the vectors of a speaker must be an array (vectors, dim)"
            vectors = vectors_of(rows, refusal)
            if not len(vectors):
                raise Nnet3Error(f"{refusal}, got an array {vectors.shape}")
            scatter = scatter if means else np.zeros((vectors.shape[1], vectors.shape[1]))
            if len(scatter) != vectors.shape[1]:
                raise Nnet3Error(f"there are vectors of {len(scatter)} and of {vectors.shape[1]} numbers")
            means.append(vectors.mean(axis=0))
            counts.append(len(vectors))
            offsets = vectors - means[-1]
            scatter += offsets.T @ offsets
        if not means:
            raise Nnet3Error("there are no vectors")
        return cls(np.stack(means), np.array(counts), scatter)

    @property
    def dim(self) -> int:
        return len(self.scatter)

    @property
    def total(self) -> int:
        """The number of vectors."""
        return int(self.counts.sum())

    def covariances(self) -> tuple[Doubles, Doubles]:
        """Returns the covariances within and between speakers, (dim, dim), around a mean of all vectors of 0."""
        between = (self.means * self.counts[:, np.newaxis]).T @ self.means
        return self.scatter / self.total, between / self.total


def discriminant_transform(stats: SpeakerStats, options: SpeakerLdaOptions) -> Singles:
    """Returns the transform (options.dim, dim) that tells speakers apart best, of vectors with a mean of 0.

    The covariance within speakers, or its mixture with the total one, becomes unit; the covariance between speakers
    diagonal, largest elements first. The signs of rows are arbitrary. Raises Nnet3Error for too few vectors.
    """
    check_kind(stats, SpeakerStats, "what a transform is estimated of", "SpeakerStats")
    check_kind(options, SpeakerLdaOptions, "the options of a transform", "SpeakerLdaOptions")
    if options.dim > stats.dim:
        raise Nnet3Error(f"--dim={options.dim} is more than the {stats.dim} numbers of a vector")
    if stats.total < stats.dim:
        raise Nnet3Error(f"{stats.total} vectors are too few for their {stats.dim} dimensions")
    if stats.total == len(stats.counts):
        raise Nnet3Error("no speaker has two vectors, so nothing is known of how a speaker's vectors differ")
    within, between = stats.covariances()
    variances, axes = principal_axes(within + options.total_covariance_factor * between)
    variances = np.maximum(variances, options.covariance_floor * variances[0])
    if variances[-1] <= 0:
        raise Nnet3Error("the covariance is singular: give a --covariance-floor above 0")
    whitening = axes / np.sqrt(variances)[:, np.newaxis]
    _, order = principal_axes(whitening @ between @ whitening.T)
    return (order[: options.dim] @ whitening).astype(np.float32)


def principal_axes(covariance: Doubles) -> tuple[Doubles, Doubles]:
    """Returns the eigenvalues (dim,), largest first, and the eigenvectors as rows (dim, dim) of a covariance."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return values[::-1], vectors[:, ::-1].T


def covariance_of(vectors: npt.NDArray[np.floating]) -> tuple[Doubles, Doubles]:
    """Returns the mean (dim,) and the covariance (dim, dim) of vectors (n, dim), divided by n."""
    rows = np.asarray(vectors, np.float64)
    mean = rows.mean(axis=0)
    return mean, (rows - mean).T @ (rows - mean) / len(rows)


def transformed(vectors: npt.NDArray[np.floating], transform: Singles) -> Singles:
    """Returns vectors (n, dim) times a transform (rows, dim), or (rows, dim + 1) with an offset as the last column.

    Raises Nnet3Error for a transform of other vectors.
    """
    dim, columns = vectors.shape[1], transform.shape[1]
    if columns not in (dim, dim + 1):
        raise Nnet3Error(
            f"a transform of {columns} columns takes vectors of {columns} or {columns - 1} numbers, got {dim}"
        )
    return np.asarray(vectors @ transform[:, :dim].T + (transform[:, dim] if columns > dim else np.float32(0)))


def with_length(vectors: Singles, scaled: bool = True) -> Singles:
    """Returns vectors (n, dim) of the length sqrt(dim), or 1 if not `scaled`; vectors of 0 stay as they are."""
    lengths = _lengths(vectors, scaled)
    return vectors * (1.0 / np.where(lengths == 0, 1.0, lengths)).astype(np.float32)


def _lengths(vectors: Singles, scaled: bool) -> Doubles:
    lengths = np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=1, keepdims=True)).astype(np.float32)
    return (lengths / np.sqrt(float(vectors.shape[1])) if scaled else lengths).astype(np.float32).astype(np.float64)
