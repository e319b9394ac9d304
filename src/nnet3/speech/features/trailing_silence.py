"""Makes recordings longer by silence of their own, as Kaldi's extend-wav-with-silence does to test endpoints."""

from __future__ import annotations

import logging

import numpy as np

from nnet3.base.options.waves import TrailingSilenceOptions
from nnet3.errors import Nnet3Error
from nnet3.speech.features.audio import Samples

_LOG = logging.getLogger("nnet3")


def with_silence(samples: Samples, rate: float, options: TrailingSilenceOptions) -> Samples:
    """Returns samples (n,) of one channel with more of their quietest piece behind them, (n + more,).

    The piece, under a Hamming window, is added every half of its length; the recording fades into it. Raises Nnet3Error
    for a recording too short to look for silence in.
    """
    more = _count(options.extra_silence_length, rate)
    if more < 1:
        raise Nnet3Error(f"{options.extra_silence_length:g} s are less than a sample at {rate:g} Hz")
    quiet = _quietest(samples, rate, options)
    size, half = len(quiet), len(quiet) // 2
    window = (0.54 - 0.46 * np.cos(2 * np.pi * np.arange(size) / (size - 1))).astype(np.float32)
    piece = window * quiet
    longer = np.concatenate([samples, np.zeros(more, np.float32)])
    added = longer[len(samples) - half :]
    added[:half] *= window[half : 2 * half]
    first = half * np.arange(-(-(len(added) - size) // half) if len(added) > size else 0)
    positions = first[:, np.newaxis] + np.arange(size)
    np.add.at(
        added, positions, np.broadcast_to(piece, positions.shape)
    )  # NumPy 2.4 reads beyond a value that it broadcasts
    rest = added[half * len(first) :]
    rest += piece[: len(rest)]
    return longer


def _quietest(samples: Samples, rate: float, options: TrailingSilenceOptions) -> Samples:
    """Returns the piece with the least energy above 0 near the begin and the end; the first piece if that has none."""
    search, size, shift = (
        _count(seconds, rate)
        for seconds in (
            options.silence_search_length,
            options.silence_extract_length,
            options.silence_extract_shift,
        )
    )
    if size < 2 or shift < 1 or search > len(samples):
        raise Nnet3Error(
            f"pieces of {size} samples, every {shift}, were to be looked for in the first and last {search} samples of "
            f"{len(samples)}: the recording is too short, or the pieces are"
        )
    last = len(samples) - search
    first = np.concatenate([[0], np.arange(0, search - size, shift), np.arange(last, len(samples) - size, shift)])
    pieces = samples[first[:, np.newaxis] + np.arange(size)]
    energy = np.square(pieces, dtype=np.float64).sum(axis=1)
    if energy[0] == 0:
        _LOG.warning("the silence that is added has no energy")
        return pieces[0]
    return pieces[np.argmin(np.where(energy > 0, energy, np.inf))]


def _count(seconds: float, rate: float) -> int:
    """Returns whole samples, counted in float32 as in Kaldi."""
    return int(np.float32(seconds) * np.float32(rate))
