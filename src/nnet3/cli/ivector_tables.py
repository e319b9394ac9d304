"""Makes tables of online ivectors of tables of features (Kaldi: ivector-extract-online2)."""

from __future__ import annotations

import numpy as np

from nnet3.asr.ivectors import IvectorFiles
from nnet3.asr.speaker_state import SpeakerState
from nnet3.cli.feature_tables import write_by_speaker
from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import random_access_vectors
from nnet3.options import IvectorOptions

_PITCH = 3  # columns of pitch behind those of the features, which extractors do not know


def write_online_ivectors(
    spk2utt: str, features: str, output: str, files: IvectorFiles, options: IvectorOptions, repeat: bool,
    frame_weights: str, tolerance: int,
) -> int:  # fmt: skip
    """Writes the ivectors of utterances, one every `ivector_period` frames, or one for each frame if `repeat`.

    What is known of a speaker goes on from one utterance to the next. `frame_weights` is a table of how much each frame
    counts; "" for 1. Lengths may differ by `tolerance`: frames without a weight count nothing. Features with three
    columns too many are taken for those with pitch, which is left away. Returns 1, an exit status, if none is written.
    """
    model = files.load(options)
    weights_of = random_access_vectors(frame_weights) if frame_weights else None

    def estimated(key: str, rows: np.ndarray, speaker: SpeakerState | None) -> tuple[np.ndarray, SpeakerState]:
        if not len(rows) or not np.isfinite(rows).all():
            raise Nnet3Error("its features have a NaN or an infinity" if len(rows) else "it has no frames")
        weights = None if weights_of is None else _fitting(weights_of.get(key), len(rows), tolerance)
        if rows.shape[1] == model.feature_dim + _PITCH:
            rows = rows[:, : model.feature_dim]
        return model.compute(rows, speaker, weights, repeat)

    return write_by_speaker(features, output, spk2utt, estimated, "Estimated ivectors for {} files, {} with errors.")


def _fitting(weights: np.ndarray | None, frames: int, tolerance: int) -> np.ndarray:
    """Returns weights of so many frames, zeros for those that have none."""
    if weights is None:
        raise Nnet3Error("there are no weights for it")
    if abs(len(weights) - frames) > tolerance:
        raise Nnet3Error(f"it has {frames} frames and {len(weights)} weights; --length-tolerance is {tolerance}")
    if not np.isfinite(weights).all():
        raise Nnet3Error("its weights have a NaN or an infinity")
    return np.pad(weights[:frames], (0, max(frames - len(weights), 0)))
