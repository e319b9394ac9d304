"""The pitch of a voice, frame by frame, from audio that comes in pieces.

Source: Ghahremani et al., "A pitch extraction algorithm tuned for automatic speech recognition", ICASSP 2014, with the
changes that Kaldi has made for streams: the loudness in the ballast is that of the audio up to now, and early frames
are done anew when it is known better. Numbers are float32 where Kaldi's are, since a path is a choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nnet3.base.options.pitch import PitchOptions
from nnet3.speech.arrays.aliases import Doubles, Integers, Rows
from nnet3.speech.arrays.row_buffer import RowBuffer
from nnet3.speech.features.audio import Resampler, Samples

_FRAMES_AT_ONCE = 512
_SAME_LOUDNESS = np.float32(0.01)  # relative change that leaves early frames as they are


class _EarlyFrame(NamedTuple):
    """A frame kept for a second search: its correlations, and the two numbers that scale the correlations."""

    correlations: Rows  # (lags,)
    energy: np.float32  # the mean of the products of energies
    loudness: np.float32


class PitchTracker:
    """Finds (NCCF, pitch in Hz) of each frame: how periodic it is, -1 to 1, and its pitch.

        tracker.accept(samples)
        tracker.accept(samples, last=True)
        tracker.found()   # (frames, 2)

    The best path is over all audio so far, so earlier frames may change while audio comes. `num_ready` frames are given
    out: with `max_frames_latency` only frames that hardly change any more.
    """

    def __init__(self, options: PitchOptions):
        self.options = options
        frequency, width = options.resample_frequency, options.upsample_filter_width
        reach = width / (2.0 * frequency)
        self._first_lag = int(np.ceil(frequency * (1.0 / options.max_f0 - reach)))
        self._last_lag = int(np.floor(frequency * (1.0 / options.min_f0 + reach)))
        self._lags = _lags(options)  # (lags,) in seconds
        count = self._last_lag + 1 - self._first_lag
        offset = self._lags - np.float32(self._first_lag / np.float32(frequency))
        self._between_lags = _interpolation(count, np.float32(frequency), offset, width)  # (measured lags, lags)
        self._resampler = Resampler(
            options.sample_frequency, frequency, cutoff=options.lowpass_cutoff, crossings=options.lowpass_filter_width
        )
        states = np.arange(len(self._lags))
        change = np.float32(np.log(1.0 + options.delta_pitch) ** 2) * np.float32(options.penalty_factor)
        self._change_costs = ((states - states[:, np.newaxis]) ** 2).astype(np.float32) * change  # (to, from)
        self._each = np.empty_like(self._change_costs)
        self._soft_lowest = np.float32(options.soft_min_f0)
        self._samples, self._given, self._is_last = np.zeros(0, np.float32), 0, False
        self._sums = np.zeros(2)  # of samples and of their squares
        self._costs = np.zeros(len(self._lags), np.float32)
        self._origins = RowBuffer(len(self._lags), np.int16)  # where the best path to each state comes from
        self._voicing = RowBuffer(count)  # correlations without ballast
        self._states = RowBuffer(1, np.int64)  # of the best path
        self._early: list[_EarlyFrame] = []
        self._latency = 0

    @property
    def num_ready(self) -> int:
        """The frames that are given out."""
        return len(self._states) - self._latency

    def accept(self, samples: Samples, last: bool = False) -> None:
        """Takes samples in, (n,), in the scale of 16 bits."""
        self._take(self._resampler.accept(samples))
        if not last:
            return
        self._is_last = True
        self._take(self._resampler.accept(np.zeros(0, np.float32), last=True))
        if len(self._origins) < self.options.recompute_frame and not self.options.nccf_ballast_online:
            self._redo()
            self._trace()
        self._latency = 0

    def found(self, first: int = 0) -> Rows:
        """Returns NCCF and pitch, (frames, 2), of the ready frames from `first` on."""
        frames = np.arange(first, self.num_ready)
        states = self._states.take(frames)[:, 0]
        nccf = np.einsum("fl,lf->f", self._voicing.take(frames), self._between_lags[:, states])
        return np.stack([nccf, np.float32(1) / self._lags[states]], axis=1)

    def forget(self, first: int) -> None:
        """Forgets the frames before `first`, which are not found again; their path stays as it is."""
        for buffer in (self._origins, self._voicing, self._states):
            buffer.forget(first)

    # ---- from samples to correlations ----

    def _take(self, samples: Samples) -> None:
        """Goes on with resampled samples."""
        before, given = self._sums.copy(), self._given
        squares = samples.astype(np.float64) ** 2
        running = np.cumsum(np.stack([samples, squares]), axis=1, dtype=np.float64)  # (2, samples)
        self._samples = np.concatenate([self._samples, samples])
        self._given += len(samples)
        self._sums = before + (running[:, -1] if len(samples) else 0.0)
        frames = np.arange(len(self._origins), self._num_frames())
        if len(frames) == 0:
            return
        counts = np.full(len(frames), self._given)
        sums = np.repeat(self._sums[:, np.newaxis], len(frames), axis=1)
        if self.options.nccf_ballast_online:
            ends = np.clip(self._starts(frames) + self._full_length - given, 0, len(samples))
            counts = given + ends
            sums = before[:, np.newaxis] + np.concatenate([np.zeros((2, 1)), running], axis=1)[:, ends]
        loudness = sums[1] / counts - (sums[0] / counts) ** 2
        for part in range(0, len(frames), _FRAMES_AT_ONCE):
            chosen = slice(part, part + _FRAMES_AT_ONCE)
            self._search(frames[chosen], loudness[chosen])
        self._trace()
        kept = max(int(self._starts(np.array([self._num_frames()]))[0]), 0)
        self._samples = self._samples[max(kept - (self._given - len(self._samples)), 0) :]

    @property
    def _full_length(self) -> int:
        return self.options.window_samples + self._last_lag

    def _num_frames(self) -> int:
        """Returns the number of frames that the samples up to now have."""
        shift, length = self.options.shift_samples, self.options.window_samples
        if not self._is_last:
            length += self._last_lag
        if self._given < length:
            return 0
        if self.options.snip_edges:
            return (self._given - length) // shift + 1
        within = self._given if self._is_last else self._given - length // 2
        return int(np.float32(within) / np.float32(shift) + np.float32(0.5))

    def _starts(self, frames: Integers) -> Integers:
        """Returns the first samples of frames, which may lie before the first sample."""
        shift = self.options.shift_samples
        if self.options.snip_edges:
            return frames * shift
        return np.trunc((frames + 0.5) * shift).astype(np.int64) - self._full_length // 2

    def _windows(self, frames: Integers) -> Doubles:
        """Returns the samples of frames, (frames, samples); zeros where there are none."""
        numbers = self._starts(frames)[:, np.newaxis] + np.arange(self._full_length)
        is_there = (numbers >= 0) & (numbers < self._given)
        positions = np.where(is_there, numbers - (self._given - len(self._samples)), 0)
        windows = np.where(is_there, self._samples[positions], np.float32(0)).astype(np.float64)
        coefficient = self.options.preemphasis_coefficient
        if coefficient:
            earlier = np.concatenate([windows[:, :1], windows[:, :-1]], axis=1)
            is_first = is_there & ~np.concatenate([np.zeros((len(frames), 1), bool), is_there[:, :-1]], axis=1)
            windows = np.where(is_there, windows - coefficient * np.where(is_first, windows, earlier), 0.0)
        return windows

    def _correlations(self, frames: Integers) -> tuple[Doubles, Doubles]:
        """Returns products of each window with its lagged self, (frames, measured lags), and of both their energies."""
        length = self.options.window_samples
        windows = self._windows(frames)
        windows = windows - windows[:, :length].mean(axis=1, keepdims=True)
        lagged = np.lib.stride_tricks.sliding_window_view(windows, length, axis=1)[:, self._first_lag :]
        products = np.einsum("fls,fs->fl", lagged, windows[:, :length])
        sums = np.pad(np.cumsum(windows**2, axis=1), ((0, 0), (1, 0)))
        energies = sums[:, length:] - sums[:, :-length]  # (frames, lags from 0 on)
        return products, energies[:, self._first_lag :] * energies[:, :1]

    # ---- the best path ----

    def _search(self, frames: Integers, loudness: Doubles) -> None:
        """Goes on with the search over frames of some loudness, (frames,)."""
        products, energies = self._correlations(frames)
        ballast = (loudness * self.options.window_samples) ** 2 * self.options.nccf_ballast
        at_lags = _ratio(products, energies + ballast[:, np.newaxis]) @ self._between_lags  # (frames, lags)
        self._voicing.append(_ratio(products, energies))
        mean_energies = energies.mean(axis=1).astype(np.float32)
        for row, frame in enumerate(frames.tolist()):
            if frame < self.options.recompute_frame:
                self._early.append(_EarlyFrame(at_lags[row], mean_energies[row], np.float32(loudness[row])))
            self._costs, origins = self._advanced(self._costs, at_lags[row])
            self._origins.append(origins[np.newaxis])
            if frame == self.options.recompute_frame - 1 and not self.options.nccf_ballast_online:
                self._redo()

    def _advanced(self, costs: Rows, correlations: Rows) -> tuple[Rows, Integers]:
        """Returns the costs of a frame's states, the least of them 0, and where their best paths come from."""
        each = np.add(self._change_costs, costs, out=self._each)  # (to, from)
        origins = each.argmin(axis=1)
        best = np.take_along_axis(each, origins[:, np.newaxis], axis=1)[:, 0]
        # The local cost is 1 - correlation (1 - soft_min_f0 lag). Where it is quiet its rounding decides.
        local = (np.float32(1) - correlations) + self._soft_lowest * correlations * self._lags
        best += local
        return best - best.min(), origins

    def _redo(self) -> None:
        """Searches the early frames again, if their loudness has turned out to be another one.

        Correlations are multiplied by what a change of the ballast changes on average.
        """
        early, self._early = self._early, []
        if not early:
            return
        loudness = np.float32(self._sums[1] / self._given - (self._sums[0] / self._given) ** 2)
        old = np.array([frame.loudness for frame in early])
        if (np.abs(old - loudness) <= _SAME_LOUDNESS * (np.abs(old) + np.abs(loudness))).all():
            return
        energies = np.array([frame.energy for frame in early], np.float64)
        length, ballast = self.options.window_samples, self.options.nccf_ballast
        scales = np.sqrt(
            ((old.astype(float) * length) ** 2 * ballast + energies)
            / ((float(loudness) * length) ** 2 * ballast + energies)
        ).astype(np.float32)
        costs, origins = np.zeros_like(self._costs), RowBuffer(len(self._lags), np.int16)
        for frame, scale in zip(early, scales, strict=True):
            costs, from_states = self._advanced(costs, frame.correlations * scale)
            origins.append(from_states[np.newaxis])
        self._costs, self._origins = costs, origins
        self._states = RowBuffer(1, np.int64)

    def _trace(self) -> None:
        """Follows the best path back, up to where it was before."""
        count = len(self._origins)
        if count == 0:
            return
        new = np.full((count - len(self._states), 1), -1)
        self._states.append(new)
        state = int(self._costs.argmin())
        for frame in range(count - 1, self._origins.start - 1, -1):
            row = self._states.row(frame)
            if row[0] == state:
                break
            row[0] = state
            state = int(self._origins.row(frame)[state])
        self._latency = self._open_frames()

    def _open_frames(self) -> int:
        """Returns the frames, at most `max_frames_latency`, in which paths to the last frame still differ."""
        most = self.options.max_frames_latency
        low, high = 0, len(self._lags) - 1
        for latency in range(min(most, len(self._origins) - self._origins.start)):
            row = self._origins.row(len(self._origins) - 1 - latency)
            low, high = int(row[low]), int(row[high])
            if low == high:
                return latency
        return min(most, len(self._origins))


def _lags(options: PitchOptions) -> Rows:
    """Returns the lags that are told apart, (lags,) in seconds: each is the one before times 1 + delta_pitch."""
    ratio, longest = 1.0 + float(np.float32(options.delta_pitch)), np.float32(1.0 / np.float32(options.min_f0))
    lags = [np.float32(1.0 / np.float32(options.max_f0))]
    while (lag := np.float32(float(lags[-1]) * ratio)) <= longest:
        lags.append(lag)
    return np.array(lags, np.float32)


def _interpolation(count: int, frequency: np.float32, points: Rows, width: int) -> Rows:
    """Returns the matrix (count, points) that takes values at 0, 1/f, 2/f ... to values at points, in seconds.

    It is a sinc of cutoff f/2 in a window of `width` zero crossings.
    """
    distance = (points - np.arange(count, dtype=np.float32)[:, np.newaxis] / frequency).astype(np.float64)
    cutoff = float(frequency) / 2
    window = 0.5 * (1 + np.cos(2 * np.pi * cutoff / width * distance))
    inside = np.abs(distance) < width / (2 * cutoff)
    return np.where(inside, window * np.sinc(2 * cutoff * distance), 0.0).astype(np.float32)


def _ratio(products: Doubles, energies: Doubles) -> Rows:
    """Returns normalised correlations; 0 where there is no energy."""
    roots = np.sqrt(energies)
    return np.divide(products, roots, out=np.zeros_like(products), where=roots > 0).astype(np.float32)


def pieces(samples: Samples, options: PitchOptions) -> Iterator[tuple[Samples, bool]]:
    """Yields samples as `frames_per_chunk` cuts them, and true with the last of them."""
    size = int(
        np.float32(options.frames_per_chunk)
        * np.float32(options.sample_frequency)
        * np.float32(options.frame_shift)
        / np.float32(1000)
    )
    size = size or max(len(samples), 1)
    for first in range(0, len(samples), size):
        yield samples[first : first + size], first + size >= len(samples)
