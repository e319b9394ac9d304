"""Detection of frames with a voice, by energy."""

from __future__ import annotations

import numpy as np

from nnet3.base.options.speaker import VadOptions
from nnet3.errors import Nnet3Error
from nnet3.speech.arrays.aliases import Flags, Rows, Singles


def voiced_frames(features: Rows, options: VadOptions | None = None) -> Flags:
    """Marks the frames with a voice, (frames,). features (frames, columns): the first column is the energy.

    A frame has a voice if enough of the frames around lie above the threshold. Raises Nnet3Error without frames, and
    for energies that are not finite.
    """
    options = options or VadOptions()
    if not features.size:
        raise Nnet3Error("it has no frames")
    energy = features[:, 0].astype(np.float32)
    if not np.isfinite(energy).all():
        raise Nnet3Error("its energies have a NaN or an infinity")
    mean = (
        np.float32(energy.sum(dtype=np.float64)) * np.float32(options.vad_energy_mean_scale) / np.float32(len(energy))
    )
    is_loud = energy > np.float32(options.vad_energy_threshold) + mean
    frames, context = np.arange(len(energy)), options.vad_frames_context
    first, end = np.maximum(frames - context, 0), np.minimum(frames + context + 1, len(energy))
    loud = np.concatenate([[0], np.cumsum(is_loud)])
    needed = (end - first).astype(np.float32) * np.float32(options.vad_proportion_threshold)
    return np.asarray((loud[end] - loud[first]).astype(np.float32) >= needed)


def selected_frames(features: Rows, voiced: Singles) -> Rows:
    """Returns the rows of features (frames, columns) whose `voiced` (frames,) is 1.

    Raises Nnet3Error for unequal lengths, numbers besides 0 and 1, and an empty result.
    """
    if len(features) != len(voiced):
        raise Nnet3Error(f"it has {len(features)} frames, and the voice activity has {len(voiced)}")
    if not np.isin(voiced, (0.0, 1.0)).all():
        raise Nnet3Error("its voice activity has numbers other than 0 and 1")
    if not voiced.any():
        raise Nnet3Error("no frame of it has a voice")
    return features[voiced != 0]
