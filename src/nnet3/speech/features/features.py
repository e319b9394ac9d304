"""Features of audio that comes in pieces: MFCCs or mel bins by kaldi-native-fbank, online normalisation, splicing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Real
from typing import Any, cast

import numpy as np

from nnet3.base.options.recognizer import (
    FbankOptions,
    FeatureOptions,
    MfccOptions,
    OnlineCmvnOptions,
    PlpOptions,
    SpliceOptions,
)
from nnet3.errors import ArgumentError, ModelFormatError, Nnet3Error, check_kind
from nnet3.speech.arrays.aliases import Doubles, Integers, Rows
from nnet3.speech.arrays.row_buffer import RowBuffer
from nnet3.speech.features.audio import Resampler, Samples
from nnet3.speech.features.conf_file import read_conf
from nnet3.speech.features.plp import PlpCepstra

try:
    import kaldi_native_fbank
except ImportError:  # pragma: no cover
    kaldi_native_fbank = None


FEATURE_KINDS: Mapping[str, type[FeatureOptions]] = {"mfcc": MfccOptions, "fbank": FbankOptions, "plp": PlpOptions}
_IGNORED = "max-feature-vectors|vtln-(low|high)|debug-mel"  # options of Kaldi's that change nothing here
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

    The pieces in which samples come make no difference to any bit of the features, unless there is dither. `band`: the
    part of the band, in hundredths, that resampling leaves (`Resampler`).
    """

    def __init__(self, options: FeatureOptions, rate: float, band: int = 100):
        check_kind(rate, Real, "the sample rate", "a number")
        wanted = options.sample_frequency
        for flag, is_refused in (
            ("allow-upsample", rate < wanted and not options.allow_upsample),
            ("allow-downsample", rate > wanted and not options.allow_downsample),
        ):
            if is_refused:
                raise ArgumentError(f"the audio has {rate:g} Hz, the model {wanted:g} Hz and --{flag}=false")
        self.options = options
        self._computer = _computer(options)
        self._plp = PlpCepstra(options) if isinstance(options, PlpOptions) else None
        self._columns = options.dim if self._plp is None else self._plp.inputs
        self._resampler = None if rate == wanted else Resampler(rate, wanted, band)
        self._done = 0

    def accept(self, samples: Samples, last: bool = False) -> Rows:
        """Returns the features, (frames, dim), completed by `samples`, (n,)."""
        if self._resampler is not None:
            samples = self._resampler.accept(samples, last)
        if len(samples):
            self._computer.accept_waveform(self.options.sample_frequency, samples)
        if last:
            self._computer.input_finished()
        ready = self._computer.num_frames_ready
        rows = np.empty((ready - self._done, self._columns), np.float32)
        for row, frame in zip(rows, range(self._done, ready), strict=True):  # the package gives one at a time
            row[:] = self._computer.get_frame(frame)
        self._computer.pop(ready - self._done)
        self._done = ready
        return rows if self._plp is None else self._plp.of(rows)


def _computer(options: FeatureOptions) -> Any:
    theirs = _native_options(options)
    is_mfcc = isinstance(options, MfccOptions)
    return kaldi_native_fbank.OnlineMfcc(theirs) if is_mfcc else kaldi_native_fbank.OnlineFbank(theirs)


def frame_window(options: FeatureOptions) -> Rows:
    """Returns the window, (frame_samples,)."""
    theirs = _native_options(options)
    window = kaldi_native_fbank.FeatureWindowFunction(theirs.frame_opts)
    return np.array(window.apply([1.0] * options.frame_samples), np.float32)


def mel_weights(options: FeatureOptions) -> Rows:
    """Returns the weights of the Fourier transform's energies in mel bins, (bins, transform_samples / 2 + 1)."""
    theirs = _native_options(options)
    return np.array(kaldi_native_fbank.MelBanks(theirs.mel_opts, theirs.frame_opts, 1.0).get_matrix())


def check_mel_bins(options: FeatureOptions) -> None:
    """Raises ArgumentError for an always empty mel bin, without any frequency of the Fourier transform."""
    empty = np.flatnonzero(~mel_weights(options).any(axis=1))
    if len(empty):
        raise ArgumentError(
            f"--num-mel-bins={options.num_mel_bins} is too large: bin {empty[0]}, from 0, has no frequency of a "
            f"Fourier transform of {options.transform_samples} samples: take fewer bins, or a longer --frame-length"
        )


def _native_options(options: FeatureOptions) -> Any:
    """Returns the options as those of kaldi-native-fbank, for PLP those of energies of mel bins.

    Raises Nnet3Error if it is not installed.
    """
    if kaldi_native_fbank is None:
        raise Nnet3Error("features of audio need kaldi-native-fbank: pip install 'nnet3[asr]'")
    is_mfcc = isinstance(options, MfccOptions)
    theirs = kaldi_native_fbank.MfccOptions() if is_mfcc else kaldi_native_fbank.FbankOptions()
    groups: tuple[tuple[Any, Mapping[str, str]], ...] = (
        (theirs.frame_opts, _FRAME_FIELDS),
        (theirs.mel_opts, _MEL_FIELDS),
        (theirs, {name: name for name in _OWN_FIELDS if hasattr(options, name) and hasattr(theirs, name)}),
    )
    for group, fields in groups:
        for name, field in fields.items():
            setattr(group, field, getattr(options, name))
    if isinstance(options, PlpOptions):
        theirs.use_log_fbank = theirs.htk_compat = False
    return theirs


def read_feature_options(path: str | os.PathLike[str], kind: str, **defaults: Any) -> FeatureOptions:
    """Returns what a config file such as mfcc.conf says, of kind "mfcc", "fbank" or "plp". Raises as `read_conf`."""
    return cast("FeatureOptions", read_conf(path, {"": FEATURE_KINDS[kind](**defaults)}, _IGNORED)[""])


class OnlineCmvn:
    """Normalises features with statistics of the frames before, of the speaker and of everybody.

    Statistics are (2, dim + 1) float64: sums and the count, sums of squares and 0. With `min_energy`, a frame whose
    first feature is not above it takes the statistics of the frame looked at before, and the statistics of everybody
    once more, as in Vosk. Raises ModelFormatError if the statistics of everybody do not fit the options.
    """

    def __init__(self, options: OnlineCmvnOptions, global_stats: Doubles, speaker_stats: Doubles | None = None):
        self.options, self._global, self._speaker = options, global_stats, speaker_stats
        dim = self.dim = global_stats.shape[1] - 1
        if max(options.skip_dims, default=0) >= dim:
            raise ModelFormatError(f"skip-dims names column {max(options.skip_dims)}, but there are {dim}")
        self._leaving = np.zeros((options.cmn_window, 2 * dim))  # frames that will leave the window, oldest first
        self._features, self._sums, self._counts = RowBuffer(dim), RowBuffer(2 * dim, float), RowBuffer(1, float)
        self._window = np.zeros(2 * dim)  # sums of the newest window
        self._loud = np.zeros(2 * dim), 0.0  # sums and count of the last frame looked at that was above `min_energy`
        self._since = -1  # frames looked at since then
        self.stats = np.zeros((2, dim + 1))  # of all frames so far

    def accept(self, features: Rows) -> None:
        """Takes frames in, (n, dim)."""
        new = len(features)
        if new == 0:
            return
        powers = np.concatenate([features, np.square(features, dtype=np.float64)], axis=1, dtype=np.float64)
        joined = np.concatenate([self._leaving, powers])
        self._leaving = joined[new:]
        sums = np.cumsum(np.concatenate([self._window[np.newaxis], powers - joined[:new]]), axis=0)[1:]
        self._window = sums[-1]
        counts = np.minimum(len(self._features) + np.arange(1, new + 1), self.options.cmn_window)
        self._features.append(features)
        self._sums.append(sums)
        self._counts.append(counts[:, np.newaxis])
        self.stats[:, :-1] += powers.sum(axis=0).reshape(2, -1)
        self.stats[0, -1] += new

    def at(self, frames: Integers) -> Rows:
        """Looks at frames in order and returns them normalised, (..., dim) for numbers of frames (...)."""
        numbers = frames.reshape(-1)
        features = self._features.take(numbers)
        order = np.arange(len(numbers))
        source = np.maximum.accumulate(np.where(features[:, 0] > self.options.min_energy, order, -1))
        own = np.maximum(source, 0)
        is_known = source >= 0
        sums = np.where(is_known[:, np.newaxis], self._sums.take(numbers[own]), self._loud[0])
        counts = np.where(is_known, self._counts.take(numbers[own])[:, 0], self._loud[1])
        since = np.where(is_known, order - source, self._since + 1 + order)
        if len(numbers):
            self._since = int(since[-1])
            self._loud = sums[-1].copy(), float(counts[-1])
        moments = self._smoothed(sums, counts, since + 1)
        return self._normalized(features, moments).reshape(*frames.shape, self.dim)

    def forget(self, first: int) -> None:
        """Forgets the frames before `first`, never looked at again."""
        for buffer in (self._features, self._sums, self._counts):
            buffer.forget(first)

    def next_rows(self, features: Rows) -> Rows:
        """Takes frames in, (n, dim), and returns them normalised; only this method may look at frames then."""
        first = len(self._features)
        self.accept(features)
        rows = self.at(np.arange(first, first + len(features)))
        self.forget(first + len(features))
        return rows

    def _smoothed(self, sums: Doubles, counts: Doubles, times: Integers) -> Doubles:
        """Returns means of numbers and squares, (n, 2 dim); `times` counts borrowings from others."""
        window, step, is_open = self.options.cmn_window, 0, np.ones(len(counts), bool)
        while (is_open := is_open & (times > step) & (counts < window)).any():
            before = counts
            for stats, most in (
                (self._speaker, self.options.speaker_frames),
                (self._global, self.options.global_frames),
            ):
                total = 0.0 if stats is None else float(stats[0, -1])
                if stats is None or total <= 0:
                    continue
                bound = min(most, total) if stats is self._speaker else most
                borrowed = np.where(is_open, np.minimum(window - counts, bound), 0.0)
                sums = sums + (borrowed / total)[:, np.newaxis] * stats[:, :-1].reshape(-1)
                counts = counts + borrowed
            is_open &= counts > before
            step += 1
        return sums / np.maximum(counts, 1)[:, np.newaxis]

    def _normalized(self, features: Rows, moments: Doubles) -> Rows:
        mean, square = moments[:, : self.dim], moments[:, self.dim :]
        normalized = features.astype(np.float64)
        if self.options.normalize_mean:
            normalized -= mean
        if self.options.normalize_variance:
            normalized /= np.sqrt(np.maximum(square - mean**2, _LEAST_VARIANCE))
        skipped = list(self.options.skip_dims)
        normalized[:, skipped] = features[:, skipped]
        return normalized.astype(np.float32)


class SplicedTransform:
    """Puts each frame and its neighbours side by side, oldest first, and multiplies them by a matrix.

    A frame waits until the frames behind it are there; only before the first and behind the last frame these are
    repeated. `matrix` is (outputs, inputs), or (outputs, inputs + 1) with an offset as last column.
    """

    def __init__(self, options: SpliceOptions, matrix: Rows, dim: int):
        self._offsets = np.arange(-options.left_context, options.right_context + 1)
        columns = len(self._offsets) * dim
        if matrix.shape[1] not in (columns, columns + 1):
            raise ModelFormatError(
                f"the transform must have {columns} or {columns + 1} columns, for {len(self._offsets)} frames of {dim} "
                f"features, got {matrix.shape[1]}: is it of other features, or of another splice.conf?"
            )
        self._factor = np.ascontiguousarray(matrix[:, :columns].T)
        self._offset = matrix[:, columns] if matrix.shape[1] > columns else np.zeros(len(matrix), np.float32)
        self.done = 0

    @property
    def first_needed(self) -> int:
        """The first frame used by the outputs not yet done."""
        return max(self.done + int(self._offsets[0]), 0)

    def next_frames(self, given: int, last: bool = False) -> Integers:
        """Returns the frames of the next outputs, (n, neighbours), when `given` frames are there."""
        end = given if last else max(given - int(self._offsets[-1]), self.done)
        numbers = np.arange(self.done, end)[:, np.newaxis] + self._offsets
        self.done = end
        return np.clip(numbers, 0, max(given - 1, 0))

    def apply(self, rows: Rows) -> Rows:
        """Returns the outputs, (n, outputs), of frames (n, neighbours, dim)."""
        return rows.reshape(len(rows), len(self._factor)) @ self._factor + self._offset
