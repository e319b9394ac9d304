"""Trains PLDA by expectation and maximisation, and adapts it to vectors without speakers.

Steps are taken in the model's space, where both covariances are diagonal. The posterior of a speaker's point is
diagonal too, so speakers with any numbers of vectors are one array.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt

from nnet3.base.options.speaker import PldaAdaptationOptions
from nnet3.errors import Nnet3Error, check_kind
from nnet3.speech.arrays.aliases import Doubles
from nnet3.speech.speaker.plda import Plda, diagonalised
from nnet3.speech.speaker.speaker_stats import SpeakerStats, covariance_of, principal_axes


def estimate_plda(stats: SpeakerStats, iterations: int = 10) -> Plda:
    """Returns the model after `iterations` iterations of EM. Raises Nnet3Error unless vectors outnumber dimensions."""
    check_kind(stats, SpeakerStats, "what a PLDA model is estimated of", "SpeakerStats")
    check_kind(iterations, int, "iterations", "an integer")
    if iterations < 0:
        raise Nnet3Error(f"iterations must be at least 0, got {iterations}")
    if stats.total <= stats.dim:
        raise Nnet3Error(f"{stats.total} vectors are too few for a PLDA model of {stats.dim} dimensions")
    if stats.total == len(stats.counts):
        raise Nnet3Error("no speaker has two vectors, so nothing is known of how a speaker's vectors differ")
    return next(islice(plda_iterations(stats), iterations, None))


def plda_iterations(stats: SpeakerStats) -> Iterator[Plda]:
    """Yields a model of unit covariances, then the model after each iteration; the mean is that of speakers' means.

    A speaker's mean m of n vectors is x + e, x of N(0, B), e of N(0, W / n). With B = diag(psi) and W = 1 the posterior
    of x has the mean w = n psi m / (n psi + 1) and the variance psi / (n psi + 1).
    """
    model = Plda(stats.means.mean(axis=0), np.eye(stats.dim), np.ones(stats.dim))
    count = stats.counts[:, np.newaxis].astype(np.float64)
    while True:
        yield model
        means = (stats.means - model.mean) @ model.transform.T  # (speakers, dim)
        spread = model.psi / (count * model.psi + 1.0)
        points = count * spread * means
        between = points.T @ points + np.diag(spread.sum(axis=0))
        offsets = means - points
        within = model.transform @ stats.scatter @ model.transform.T
        within += (count * offsets).T @ offsets + np.diag((count * spread).sum(axis=0))
        further, psi = diagonalised(within / stats.total, between / len(count))
        model = Plda(model.mean, further @ model.transform, psi)


def plda_log_likelihood(stats: SpeakerStats, model: Plda) -> float:
    """Returns the log-likelihood per vector of all vectors, given their speakers.

    A speaker's n vectors are their mean, of N(mean, B + W / n), and n - 1 directions around it, of N(0, W).
    """
    log_det = -2.0 * float(np.linalg.slogdet(model.transform)[1])  # of W
    constant = stats.dim * math.log(2 * math.pi) + log_det
    around = float(np.trace(model.transform @ stats.scatter @ model.transform.T))
    around += (stats.total - len(stats.counts)) * constant + stats.dim * float(np.log(stats.counts).sum())
    variance = model.psi + 1.0 / stats.counts[:, np.newaxis]
    means = (stats.means - model.mean) @ model.transform.T
    of_means = float((np.log(variance) + means**2 / variance).sum()) + len(means) * constant
    return -0.5 * (around + of_means) / stats.total


def adapted_plda(model: Plda, vectors: npt.NDArray[np.floating], options: PldaAdaptationOptions | None = None) -> Plda:
    """Returns the model with the mean of vectors (n, dim), and with wider covariances where the vectors vary more.

    In the space where the model's total variance is unit, each principal axis of the vectors' variance beyond 1 goes to
    the covariances within and between speakers by the options' shares. Raises Nnet3Error for vectors that do not fit.
    """
    options = options or PldaAdaptationOptions()
    rows = model.vectors(vectors)
    if not len(rows):
        raise Nnet3Error("there are no vectors")
    mean, variance = covariance_of(rows)
    moved = mean - model.mean
    variance += options.mean_diff_scale * np.outer(moved, moved)
    unit = model.transform / np.sqrt(1.0 + model.psi)[:, np.newaxis]  # total covariance of the model becomes 1
    sizes, axes = principal_axes(unit @ variance @ unit.T)
    within = (axes / (1.0 + model.psi)) @ axes.T
    excess = np.maximum(sizes - 1.0, 0.0)
    further, psi = diagonalised(
        _with_diagonal(within, options.within_covar_scale * excess),
        _with_diagonal(np.eye(model.dim) - within, options.between_covar_scale * excess),
    )
    return Plda(mean, further @ axes @ unit, psi)


def _with_diagonal(matrix: Doubles, added: Doubles) -> Doubles:
    return matrix + np.diag(added)
