"""Features of pitches: voicing, the logarithm of the pitch less its mean, its change (Kaldi: process-pitch)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnet3.base.options.pitch import PitchFeatureOptions, PitchOptions
from nnet3.errors import Nnet3Error
from nnet3.speech.arrays.aliases import Doubles, Integers, Rows
from nnet3.speech.features.audio import Resampler, Samples
from nnet3.speech.features.feature_changes import with_deltas
from nnet3.speech.features.pitch import PitchTracker

_KEPT = 1000  # frames in which the best path may still change
Noise = Callable[[int], Doubles]  # so many numbers of the standard normal distribution


class PitchFeatures:
    """Makes features, (frames, dim), of pitches (frames, 2): NCCF and pitch in Hz.

    `noise` is added to changes; it is drawn once for each frame, in order.
    """

    def __init__(self, options: PitchFeatureOptions, noise: Noise | None = None):
        self.options, self._noise = options, noise
        self._drawn = np.zeros(0)

    def of(self, pitches: Rows, frames: Integers, first: int = 0) -> Rows:
        """Returns the features of some frames, (n, dim). Raises Nnet3Error for impossible pitches.

        Row 0 of `pitches` is frame `first`. The features of frame t are of the pitch at frame max(t - delay, 0).
        """
        _check(pitches)
        options, found = self.options, list[Doubles]()
        numbers = np.maximum(frames - options.delay, 0)
        frames = numbers - first
        nccf, logs = pitches[:, 0].astype(np.float64), np.log(pitches[:, 1])
        if options.add_pov_feature:
            voicing = (1.0001 - nccf[frames].clip(-1, 1)) ** 0.15 - 1
            found.append(options.pov_scale * voicing + options.pov_offset)
        if options.add_normalized_log_pitch:
            found.append(options.pitch_scale * (logs[frames] - self._means(nccf, logs, frames)))
        if options.add_delta_pitch:
            changes = with_deltas(logs[:, np.newaxis], 1, options.delta_window)[frames, 1]
            noise = options.delta_pitch_noise_stddev * self._noise_at(numbers)
            found.append(options.delta_pitch_scale * (changes + noise))
        if options.add_raw_log_pitch:
            found.append(logs[frames])
        return np.stack(found, axis=1).astype(np.float32)

    def _means(self, nccf: Doubles, logs: Rows, frames: Integers) -> Doubles:
        """Returns means of logarithms around frames, weighted by the probability that a frame is voiced."""
        weights = voiced_probability(nccf)
        sums = np.pad(np.cumsum(np.stack([weights, weights * logs]), axis=1), ((0, 0), (1, 0)))
        first = np.maximum(frames - self.options.normalization_left_context, 0)
        behind = np.minimum(frames + self.options.normalization_right_context + 1, len(logs))
        weight, total = sums[:, behind] - sums[:, first]
        return total / weight

    def _noise_at(self, frames: Integers) -> Doubles:
        more = int(frames.max(initial=-1)) + 1 - len(self._drawn)
        if self._noise is None or self.options.delta_pitch_noise_stddev == 0:
            return np.zeros(len(frames))
        if more > 0:
            self._drawn = np.concatenate([self._drawn, self._noise(more)])
        return self._drawn[frames]


def voiced_probability(nccf: Doubles) -> Doubles:
    """Returns the probability that frames are voiced, by the curve that Kaldi fits to the Keele database."""
    size = np.minimum(np.abs(nccf), 1.0)
    ratio = -5.2 + 5.4 * np.exp(7.5 * (size - 1)) + 4.8 * size - 2 * np.exp(-10 * size) + 4.2 * np.exp(20 * (size - 1))
    return 1 / (1 + np.exp(-ratio))


def _check(pitches: Rows) -> None:
    if pitches.ndim != 2 or pitches.shape[1] != 2:
        raise Nnet3Error(f"expected NCCF and pitch, 2 columns, got {pitches.shape[-1]} columns")
    if not np.isfinite(pitches).all() or (pitches[:, 1] <= 0).any():
        raise Nnet3Error("expected NCCF and pitch in Hz: a pitch is not above 0, or a number is not finite")


class PitchFeatureStream:
    """Makes features of pitch of samples at `rate`, which come in pieces, resampled where the options say another rate.

    A frame is given out as soon as the frames behind it that its mean needs are there, with what is known then.
    """

    def __init__(
        self,
        options: PitchOptions,
        features: PitchFeatureOptions,
        rate: float,
        noise: Noise | None = None,
        *,
        forgets: bool = True,
    ):
        """`forgets`: frames that were given out are kept for a while only, so `at` does not take old ones."""
        wanted = options.sample_frequency
        self._resampler = None if rate == wanted else Resampler(rate, wanted)
        self._tracker, self._features = PitchTracker(options), PitchFeatures(features, noise)
        self._wait, self._delay = features.normalization_right_context, features.delay
        self._reach = max(features.normalization_left_context, 2 * features.delta_window) + features.delay
        self._forgets, self._done = forgets, 0

    def accept(self, samples: Samples, last: bool = False) -> Rows:
        """Returns the features, (frames, dim), completed by `samples`, (n,)."""
        if self._resampler is not None:
            samples = self._resampler.accept(samples, last)
        self._tracker.accept(samples, last)
        ready = self._tracker.num_ready
        if ready:
            ready = max(ready + self._delay - (0 if last else self._wait), 0)
        frames = np.arange(self._done, max(ready, self._done))
        self._done += len(frames)
        rows = self.at(frames)
        if self._forgets:
            self._tracker.forget(self._done - self._reach - _KEPT)
        return rows

    def at(self, frames: Integers) -> Rows:
        """Returns the features of frames in order, (n, dim), with what is known now."""
        if len(frames) == 0:
            return np.zeros((0, self._features.options.dim), np.float32)
        first = max(int(frames[0]) - self._reach, 0)
        return self._features.of(self._tracker.found(first), frames, first)

    @property
    def num_frames(self) -> int:
        """The frames given out."""
        return self._done


class WithPitch:
    """Puts the features of pitch of each frame behind its other features; a frame waits until both are there."""

    def __init__(self, pitch: PitchFeatureStream, dim: int):
        """`dim`: the number of other features."""
        self._pitch = pitch
        self._parts = np.zeros((0, dim), np.float32), pitch.at(np.arange(0))

    def accept(self, features: Rows, samples: Samples, last: bool = False) -> Rows:
        """Returns frames, (frames, columns), for new features (n, dim) and the samples that gave them, (m,)."""
        new = features, self._pitch.accept(samples, last)
        parts = [np.concatenate(each) for each in zip(self._parts, new, strict=True)]
        count = min(map(len, parts))
        self._parts = parts[0][count:], parts[1][count:]
        return np.concatenate([part[:count] for part in parts], axis=1)
