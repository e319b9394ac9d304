"""Features of audio that comes in pieces: MFCCs or mel bins by kaldi-native-fbank, online normalisation, splicing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.asr.audio import Resampler, Samples
from nnet3.errors import ArgumentError, ModelFormatError, Nnet3Error
from nnet3.options import FbankOptions, MfccOptions, OnlineCmvnOptions, SpliceOptions

try:
    import kaldi_native_fbank
except ImportError:  # pragma: no cover
    kaldi_native_fbank = None

Rows = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

_FRAME_FIELDS = {
    "sample_frequency": "samp_freq",
    "frame_length": "frame_length_ms",
    "frame_shift": "frame_shift_ms",
    "dither": "dither",
    "preemphasis_coefficient": "preemph_coeff",
    "remove_dc_offset": "remove_dc_offset",
    "window_type": "window_type",
    "blackman_coeff": "blackman_coeff",
    "round_to_power_of_two": "round_to_power_of_two",
    "snip_edges": "snip_edges",
}
_MEL_FIELDS = {"num_mel_bins": "num_bins", "low_freq": "low_freq", "high_freq": "high_freq"}
_OWN_FIELDS = (
    *("num_ceps", "use_energy", "raw_energy", "energy_floor", "cepstral_lifter", "htk_compat"),
    *("use_log_fbank", "use_power"),
)
_LEAST_VARIANCE = 1e-20


class FeatureStream:
    """Computes features of samples at `rate`, which are resampled where the options have another sample frequency.

    The pieces in which samples come make no difference to any bit of the features, unless there is dither.
    """

    def __init__(self, options: MfccOptions | FbankOptions, rate: float):
        if kaldi_native_fbank is None:
            raise Nnet3Error("features of audio need kaldi-native-fbank: pip install 'nnet3[asr]'")
        wanted = options.sample_frequency
        for flag, is_refused in (
            ("allow-upsample", rate < wanted and not options.allow_upsample),
            ("allow-downsample", rate > wanted and not options.allow_downsample),
        ):
            if is_refused:
                raise ArgumentError(f"the audio has {rate:g} Hz, the model {wanted:g} Hz and --{flag}=false")
        self.options = options
        self._resampler = None if rate == wanted else Resampler(rate, wanted)
        self._computer = _computer(options)
        self._done = 0

    def accept(self, samples: Samples, last: bool = False) -> Rows:
        """Returns the features, (frames, dim), that these samples, (n,), complete."""
        if self._resampler is not None:
            samples = self._resampler.accept(samples, last)
        if len(samples):
            self._computer.accept_waveform(self.options.sample_frequency, samples)
        if last:
            self._computer.input_finished()
        ready = self._computer.num_frames_ready
        rows = np.empty((ready - self._done, self.options.dim), np.float32)
        for row, frame in zip(rows, range(self._done, ready), strict=True):  # the package gives one at a time
            row[:] = self._computer.get_frame(frame)
        self._computer.pop(ready - self._done)
        self._done = ready
        return rows


def _computer(options: MfccOptions | FbankOptions) -> Any:
    is_mfcc = isinstance(options, MfccOptions)
    theirs = kaldi_native_fbank.MfccOptions() if is_mfcc else kaldi_native_fbank.FbankOptions()
    groups: tuple[tuple[Any, Mapping[str, str]], ...] = (
        (theirs.frame_opts, _FRAME_FIELDS),
        (theirs.mel_opts, _MEL_FIELDS),
        (theirs, {name: name for name in _OWN_FIELDS if hasattr(options, name)}),
    )
    for group, fields in groups:
        for name, field in fields.items():
            setattr(group, field, getattr(options, name))
    return kaldi_native_fbank.OnlineMfcc(theirs) if is_mfcc else kaldi_native_fbank.OnlineFbank(theirs)


class OnlineCmvn:
    """Normalises features with statistics of the frames before, of the speaker and of everybody.

    Statistics are (2, dim + 1) float64: sums and the count, sums of squares and 0. Raises ModelFormatError if those of
    everybody do not fit the options.
    """

    def __init__(self, options: OnlineCmvnOptions, global_stats: Doubles, speaker_stats: Doubles | None = None):
        self.options, self._global, self._speaker = options, global_stats, speaker_stats
        dim = self.dim = global_stats.shape[1] - 1
        if max(options.skip_dims, default=0) >= dim:
            raise ModelFormatError(f"skip-dims names column {max(options.skip_dims)}, but there are {dim}")
        self._window = np.zeros((options.cmn_window, 2 * dim))  # frames that will leave the window, oldest first
        self._sums = np.zeros(2 * dim)
        self._frames = 0
        self.stats = np.zeros((2, dim + 1))  # of all frames so far

    def accept(self, features: Rows) -> Rows:
        """Returns the frames, (n, dim), normalised."""
        options, dim, new = self.options, self.dim, len(features)
        if new == 0:
            return features
        powers = np.concatenate([features, np.square(features, dtype=np.float64)], axis=1, dtype=np.float64)
        joined = np.concatenate([self._window, powers])
        self._window = joined[new:]
        changes = np.concatenate([self._sums[np.newaxis], powers - joined[:new]])
        sums = np.cumsum(changes, axis=0)[1:]  # of the window of each frame
        self._sums = sums[-1].copy()
        counts = np.minimum(self._frames + np.arange(1, new + 1), options.cmn_window).astype(np.float64)
        self._frames += new
        self.stats += _as_stats(powers.sum(axis=0), new)
        for stats, most in ((self._speaker, options.speaker_frames), (self._global, options.global_frames)):
            total = 0.0 if stats is None else float(stats[0, -1])
            if stats is None or total <= 0:
                continue
            bound = min(most, total) if stats is self._speaker else most
            borrowed = np.minimum(options.cmn_window - counts, bound)  # frames
            sums = sums + (borrowed / total)[:, np.newaxis] * stats[:, :-1].reshape(-1)
            counts = counts + borrowed
        return self._normalized(features, sums / counts[:, np.newaxis], dim)

    def _normalized(self, features: Rows, moments: Doubles, dim: int) -> Rows:
        mean, square = moments[:, :dim], moments[:, dim:]
        normalized = features.astype(np.float64)
        if self.options.normalize_mean:
            normalized -= mean
        if self.options.normalize_variance:
            normalized /= np.sqrt(np.maximum(square - mean**2, _LEAST_VARIANCE))
        skipped = list(self.options.skip_dims)
        normalized[:, skipped] = features[:, skipped]
        return normalized.astype(np.float32)


def _as_stats(sums: Doubles, count: float) -> Doubles:
    stats = np.zeros((2, len(sums) // 2 + 1))
    stats[:, :-1] = sums.reshape(2, -1)
    stats[0, -1] = count
    return stats


class SplicedTransform:
    """Puts each frame and its neighbours side by side, oldest first, and multiplies them by a matrix.

    A frame waits until those behind it are there; only before the first and behind the last frame these are repeated.
    `matrix` is (outputs, inputs), or (outputs, inputs + 1) with an offset as last column.
    """

    def __init__(self, options: SpliceOptions, matrix: Rows, dim: int):
        self._left, self._right = options.left_context, options.right_context
        self._width = self._left + 1 + self._right
        columns = self._width * dim
        if matrix.shape[1] not in (columns, columns + 1):
            raise ModelFormatError(
                f"the transform must have {columns} or {columns + 1} columns, for {self._width} frames of {dim} "
                f"features, got {matrix.shape[1]}: is it of other features, or of another splice.conf?"
            )
        self._factor = np.ascontiguousarray(matrix[:, :columns].T)
        self._offset = matrix[:, columns] if matrix.shape[1] > columns else np.zeros(len(matrix), np.float32)
        self._rows = np.zeros((0, dim), np.float32)

    def accept(self, features: Rows, last: bool = False) -> Rows:
        """Returns the outputs, (n, outputs), that these frames, (m, dim), complete."""
        if len(self._rows) == 0:
            features = np.concatenate([np.repeat(features[:1], self._left, axis=0), features])
        rows = np.concatenate([self._rows, features])
        if last:
            rows = np.concatenate([rows, np.repeat(rows[-1:], self._right, axis=0)])
        count = max(len(rows) - self._width + 1, 0)
        self._rows = rows[count:]
        if count == 0:
            return np.zeros((0, self._factor.shape[1]), np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(rows, self._width, axis=0)  # (n, dim, width)
        return windows.swapaxes(1, 2).reshape(count, -1) @ self._factor + self._offset
