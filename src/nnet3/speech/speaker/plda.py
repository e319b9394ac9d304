"""PLDA: how much likelier two vectors are of one speaker than of two (probabilistic linear discriminant analysis).

A speaker is a point y of N(mean, B), a vector of the speaker y plus noise of N(0, W). In the model's own space W is
the unit matrix and B a diagonal, psi.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from nnet3.base.index.given_numbers import real_numbers
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.speaker import PldaScoringOptions
from nnet3.errors import ModelFormatError, Nnet3Error, shown
from nnet3.model.nnet.conversion import check_number
from nnet3.speech.arrays.aliases import Doubles, Singles
from nnet3.speech.speaker.given import vectors_of

if TYPE_CHECKING:
    from typing_extensions import Self

Counts = Sequence[int] | npt.NDArray[np.integer]


def diagonalised(within: Doubles, between: Doubles) -> tuple[Doubles, Doubles]:
    """Returns T (dim, dim) and psi (dim,), in descending order, with T within T^T = 1 and T between T^T = diag(psi).

    Raises Nnet3Error for a covariance within speakers that is not positive definite.
    """
    try:
        whitening = np.linalg.inv(np.linalg.cholesky(within))
        projected = whitening @ between @ whitening.T
        values, axes = np.linalg.eigh((projected + projected.T) / 2)
    except np.linalg.LinAlgError:  # also for a NaN
        raise Nnet3Error(
            "the covariance within speakers is not positive definite: more vectors or fewer dimensions are needed"
        ) from None
    return axes[:, ::-1].T @ whitening, np.maximum(values[::-1], 0.0)


@dataclass(frozen=True, eq=False)
class Plda:
    """A model: `mean` (dim,), `transform` (dim, dim) into the model's own space, `psi` (dim,), descending."""

    mean: Doubles
    transform: Doubles
    psi: Doubles

    @classmethod
    def of_covariances(cls, mean: Doubles, within: Doubles, between: Doubles) -> Self:
        """Returns the model with covariances (dim, dim) within and between speakers."""
        return cls(mean, *diagonalised(within, between))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Reads `<Plda> mean transform psi </Plda>`. Raises ModelFormatError for parts that do not fit."""
        start = reader.position
        reader.expect("<Plda>")
        mean, transform, psi = reader.vector(np.float64), reader.matrix(np.float64), reader.vector(np.float64)
        reader.expect("</Plda>")
        dim = len(mean)
        if not dim or transform.shape != (dim, dim) or psi.shape != (dim,):
            raise reader.error_at(
                start,
                f"a mean of {dim} numbers, a transform {transform.shape} and {len(psi)} variances are no PLDA model",
            )
        if not all(np.isfinite(part).all() for part in (mean, transform, psi)) or psi.min() < 0:
            raise reader.error_at(start, "a PLDA model has a NaN, an infinity, or a variance below 0")
        return cls(mean, transform, psi)

    def write_to(self, writer: Writer) -> None:
        """Writes what `read` reads, with Kaldi's bytes."""
        writer.token("<Plda>").vector(self.mean, double=True)
        writer.matrix(self.transform, double=True)
        writer.vector(self.psi, double=True)
        writer.token("</Plda>")

    @property
    def dim(self) -> int:
        return len(self.mean)

    def covariances(self) -> tuple[Doubles, Doubles]:
        """Returns the covariances within and between speakers, (dim, dim). Raises ModelFormatError for a bad model."""
        try:
            back = np.linalg.inv(self.transform)
        except np.linalg.LinAlgError:
            raise ModelFormatError("the transform of the PLDA model has no inverse") from None
        return back @ back.T, (back * self.psi) @ back.T

    def smoothed(self, factor: float) -> Plda:
        """Returns the model with `factor` times the covariance between speakers added to the one within speakers.

        Raises ArgumentError for a factor below 0.
        """
        check_number("the factor of smoothing", factor, 0.0)
        within = 1.0 + factor * self.psi
        return Plda(self.mean, self.transform / np.sqrt(within)[:, np.newaxis], self.psi / within)

    def projected(self, matrix: Doubles) -> Plda:
        """Returns the model of vectors that are multiplied by a matrix (rows, dim) of full rank."""
        within, between = self.covariances()
        return Plda.of_covariances(matrix @ self.mean, matrix @ within @ matrix.T, matrix @ between @ matrix.T)

    def in_own_space(
        self, vectors: npt.NDArray[np.floating], counts: Counts = (1,), options: PldaScoringOptions | None = None
    ) -> tuple[Singles, Doubles]:
        """Returns vectors (n, dim) in the model's own space, and the factors (n,) that give the expected lengths.

        `counts` (n,) or (1,): each vector is the mean of so many vectors of a speaker. Without normalisation of
        lengths the factors are not applied. A vector that is the model's mean keeps its length of 0. Raises Nnet3Error
        for vectors of another dimension, and for vectors that are not finite.
        """
        options = options or PldaScoringOptions()
        rows = self.vectors(vectors)
        own = rows @ self.transform.T - self.transform @ self.mean
        variance = np.ones(1)
        if not options.simple_length_normalization:
            variance = self.psi + 1.0 / _checked(counts, len(rows))
        squares = (own**2 / variance).sum(axis=1)
        factors = np.sqrt(self.dim / np.where(squares > 0, squares, self.dim))
        if options.normalize_length:
            own *= factors[:, np.newaxis]
        return own.astype(np.float32), factors

    def ratios(self, enrolled: npt.NDArray[np.floating], counts: Counts, tests: npt.NDArray[np.floating]) -> Doubles:
        """Returns log-likelihood ratios (n, m): a test is of the speaker of an enrolled vector, or of another speaker.

        `enrolled` (n, dim) and `tests` (m, dim) are in the model's own space, `counts` (n,) or (1,) says of how many
        vectors each enrolled one is the mean. Raises Nnet3Error for arrays of other shapes or without numbers.
        """
        square, linear, constant = self._coefficients(enrolled, counts)
        points = self.vectors(tests)
        return square @ (points**2).T + linear @ points.T + constant[:, np.newaxis]

    def ratios_of_pairs(
        self, enrolled: npt.NDArray[np.floating], counts: Counts, tests: npt.NDArray[np.floating]
    ) -> Doubles:
        """Returns log-likelihood ratios (n,), as `ratios` does, of enrolled vectors and the tests in the same rows."""
        square, linear, constant = self._coefficients(enrolled, counts)
        points = self.vectors(tests)
        return np.asarray(((square * points + linear) * points).sum(axis=1) + constant)

    def vectors(self, vectors: npt.NDArray[np.floating]) -> Doubles:
        """Returns vectors (n, dim) that may be of this model. Raises Nnet3Error for others."""
        return vectors_of(vectors, f"the PLDA model is of vectors of {self.dim} numbers", self.dim)

    def _coefficients(self, enrolled: npt.NDArray[np.floating], counts: Counts) -> tuple[Doubles, Doubles, Doubles]:
        """Returns a (n, dim), b (n, dim) and c (n,) of the ratio, which is a t^2 + b t + c in a test t.

        Given n vectors with mean u a test is N(m, v), m = n psi u / (n psi + 1), v = 1 + psi / (n psi + 1); given
        none it is N(0, 1 + psi) (Ioffe, "Probabilistic linear discriminant analysis", 2006).
        """
        rows = self.vectors(enrolled)
        count = _checked(counts, len(rows))
        known = count * self.psi + 1.0
        mean = count * self.psi / known * rows
        variance = np.broadcast_to(1.0 + self.psi / known, mean.shape)
        prior = 1.0 + self.psi
        constant = -0.5 * (mean**2 / variance + np.log(variance / prior)).sum(axis=1)
        return 0.5 * (1.0 / prior - 1.0 / variance), mean / variance, constant


def _checked(counts: Counts, most: int) -> Doubles:
    """Returns counts (n, 1) or (1, 1) of vectors. Raises Nnet3Error for other shapes, and unless all are above 0."""
    found = real_numbers(counts, "counts of vectors must be numbers")
    if found.shape not in ((most,), (1,)) or not (found > 0).all():
        raise Nnet3Error(f"counts must be {most} numbers above 0, or one, got {shown(counts)}")
    return found[:, np.newaxis]
