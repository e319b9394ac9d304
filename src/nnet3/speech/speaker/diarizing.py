"""Diarization: who spoke when in a recording."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.options.speaker import ClusteringOptions, DiarizationOptions, PldaScoringOptions
from nnet3.errors import ModelFormatError
from nnet3.speech.arrays.aliases import Doubles
from nnet3.speech.speaker.clustering import clusters_of
from nnet3.speech.speaker.plda import Plda
from nnet3.speech.speaker.speaker_model import Recording, SpeakerModel
from nnet3.speech.speaker.speaker_stats import covariance_of, principal_axes
from nnet3.speech.speaker.turns import Turn, stretches_of, turns_of, windows_in

_DIGITS = 6  # of times
_ALL_OF_IT = 0.002  # a share this near to 1 means all axes


def diarize(
    recording: Recording,
    model: SpeakerModel | str | os.PathLike[str],
    *,
    num_speakers: int | None = None,
    options: DiarizationOptions | None = None,
    **named: Any,
) -> list[Turn]:
    """Returns the turns of the speakers in a recording, in the order of time, speakers counted from 1 as they begin.

    Stretches with a voice are cut into windows; the windows' x-vectors are compared by PLDA and clustered, to
    `num_speakers` speakers or to a threshold. `named` are single options, as `threshold=0.5`. Raises ModelFormatError
    for a directory without `plda`, Nnet3Error for a recording that cannot be read.
    """
    options = options or DiarizationOptions.named(**named)
    model = model if isinstance(model, SpeakerModel) else SpeakerModel(model)
    plda = plda_of(model)
    features, voiced = model.frames(recording)
    seconds = model.frame_seconds
    size, step, least, pause = (
        max(round(length / seconds), smallest)
        for length, smallest in (
            (options.window, 1),
            (options.period, 1),
            (options.min_segment, 1),
            (options.max_pause, 0),
        )
    )
    windows = windows_in(stretches_of(voiced, pause), size, step, least)
    if not len(windows):
        return []
    vectors = model.prepared(model.vectors(features[first:end] for first, end in windows.tolist()))
    scores = scores_of_pairs(plda, vectors, options.target_energy)
    labels = clusters_of(-scores.astype(np.float32), ClusteringOptions(threshold=-options.threshold), num_speakers)
    times = np.asarray(windows * seconds, np.float64)
    start, end, first = turns_of(times[:, 0], times[:, 1], labels)
    names: dict[int, int] = {}
    speakers = [names.setdefault(label, len(names) + 1) for label in labels[first].tolist()]
    sides = (np.round(side, _DIGITS).tolist() for side in (start, end))
    return [Turn(*each) for each in zip(*sides, speakers, strict=True)]


def plda_of(model: SpeakerModel) -> Plda:
    """Returns the PLDA model that diarization needs. Raises ModelFormatError for a directory without `plda`."""
    if model.plda is None:
        raise ModelFormatError("diarization compares vectors by PLDA, and the file plda is missing", str(model.path))
    return model.plda


def scores_of_pairs(
    plda: Plda, vectors: npt.NDArray[np.floating], target_energy: float, options: PldaScoringOptions | None = None
) -> Doubles:
    """Returns log-likelihood ratios (n, n) of all pairs of the vectors (n, dim) of a recording.

    Vectors and model are projected to the first axes of the recording's own variance, until these have more than
    `target_energy` of it, and one axis more, as in Kaldi; all axes with a share of 1. Raises Nnet3Error for vectors
    that are not of the model, or not finite.
    """
    vectors = plda.vectors(vectors)
    if 1 - target_energy > _ALL_OF_IT:
        axes = main_axes(vectors, target_energy)
        vectors, plda = vectors @ axes.T, plda.projected(axes)
    own, _ = plda.in_own_space(vectors, options=options)
    return plda.ratios(own, (1,), own)


def main_axes(vectors: npt.NDArray[np.floating], target_energy: float) -> Doubles:
    """Returns the first axes (axes, dim) of the variance of vectors (n, dim), with more than a share of it, and one."""
    _, covariance = covariance_of(vectors)
    variances, axes = principal_axes(covariance)
    variances = np.maximum(variances, 0.0)
    total = variances.sum()
    enough = np.cumsum(variances) > target_energy * total
    return axes[: min(int(np.argmax(enough)) + 2, len(axes)) if enough.any() else 1]
