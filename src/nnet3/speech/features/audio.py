"""Audio as it comes: samples of any format, of one or more channels, at another rate."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from numbers import Real

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.arrays import as_array
from nnet3.errors import ArgumentError

Samples = npt.NDArray[np.float32]
#: What a stream takes: PCM as bytes, or an array (samples,) or (samples, channels).
Audio = bytes | bytearray | memoryview | npt.NDArray[np.generic]

_LOG = logging.getLogger("nnet3")
_FULL_SCALE = 32768.0
_LOUDEST = 1e10  # of floats: louder than 32 bits in their own scale; features of some more would be infinite
_FAINT_SAMPLES = 8000  # after which audio below one step of 16 bits is told
_OTHER = {
    "f": "floats are in the scale of 16 bits, multiply by 32768",
    "i": "int32 reaches to 2147483647, give values of 16 bits as int16",
}
_ZERO_CROSSINGS = 6
_RATES = (1000, 400_000)
_LONGEST = 1e5  # seconds of a piece


class PcmReader:
    """Makes mono float32 samples in the scale of 16 bits from audio in pieces.

    Bytes are 16-bit little-endian samples, `channels` of them interleaved; a sample cut at the end of a piece goes on
    in the next piece. Arrays of integers are scaled by their type; arrays of floats are in the scale of 16 bits
    already, as in Kaldi and Vosk. Several channels are averaged, unless `channel` selects one.

    If an array's type reaches further than 16 bits, but half a second has no sample beyond 1 in the scale of 16 bits, a
    warning says so, once: floats may be in the scale of 1, integers of 16 bits in a larger type.
    """

    def __init__(self, channels: int = 1, channel: int | None = None):
        for number in (channels, 0 if channel is None else channel):
            if not isinstance(number, int | np.integer):
                raise ArgumentError(f"channels are counted by whole numbers, got {number!r:.80}")
        if channels < 1 or (channel is not None and not 0 <= channel < channels):
            raise ArgumentError(f"there is no channel {channel} of {channels}")
        self.channels, self.channel = channels, channel
        self._cut = b""
        self._faint: int | None = 0  # samples up to now, all of them too quiet; None: one was loud, or it was said

    def read(self, audio: Audio) -> Samples:
        """Returns the samples, (n,). Raises ArgumentError for what is no audio, and for a NaN."""
        if isinstance(audio, bytes | bytearray | memoryview):
            contents = self._cut + bytes(audio)
            whole = len(contents) - len(contents) % (2 * self.channels)
            self._cut = contents[whole:]
            return self._mono(np.frombuffer(contents[:whole], "<i2").reshape(-1, self.channels).astype(np.float32))
        array = as_array(audio)
        if array.dtype.kind not in "iuf":
            raise ArgumentError(f"audio is bytes or an array of samples, got {type(audio).__name__} of {array.dtype}")
        if array.ndim == 1 and self.channels > 1 and len(array) % self.channels == 0:
            array = array.reshape(-1, self.channels)
        columns = array[:, np.newaxis] if array.ndim == 1 else array
        if columns.ndim != 2 or columns.shape[1] != self.channels:
            raise ArgumentError(
                f"audio must be (samples,) or (samples, {self.channels}), a column a channel, got {array.shape}"
            )
        samples = _in_16_bits(columns)
        if self._faint is not None and (array.dtype.kind == "f" or array.dtype.itemsize > 2):
            self._check_scale(samples, self._faint, array.dtype.kind)
        return self._mono(samples)

    def _check_scale(self, samples: Samples, faint: int, kind: str) -> None:
        loudest = float(np.abs(samples).max(initial=0))
        faint += int(np.count_nonzero(samples)) // self.channels
        self._faint = faint if loudest <= 1 and faint < _FAINT_SAMPLES else None
        if self._faint is None and loudest <= 1:
            _LOG.warning(
                "the audio is so faint that nothing can be heard: if its scale is another one, %s", _OTHER[kind]
            )

    def _mono(self, columns: Samples) -> Samples:
        if self.channel is not None:
            return np.ascontiguousarray(columns[:, self.channel])
        return columns[:, 0] if self.channels == 1 else columns.mean(axis=1)


def _in_16_bits(samples: npt.NDArray[np.generic]) -> Samples:
    kind, bits = samples.dtype.kind, 8 * samples.dtype.itemsize
    if kind == "f":
        scaled = samples.astype(np.float32)
        if not np.isfinite(scaled).all():
            raise ArgumentError("the samples have a NaN or an infinity")
        if np.abs(scaled).max(initial=0) > _LOUDEST:
            raise ArgumentError(
                f"the samples reach to {np.abs(scaled).max():.3g}, where the scale of 16 bits has 32768"
            )
        return scaled
    if kind == "u" and bits == 8:
        return (samples.astype(np.float32) - 128) * 256
    if kind == "i" and bits <= 32:
        return (samples.astype(np.float64) * (_FULL_SCALE / 2 ** (bits - 1))).astype(np.float32)
    raise ArgumentError(
        f"samples must be uint8, int8, int16 or int32, or floats in the scale of 16 bits, got {samples.dtype}"
    )


def samples_at_once(rate: float, seconds: float) -> int:
    """Returns the number of samples in `seconds`, at least 1, by float32 as in Kaldi; 0 (all) if `seconds` <= 0."""
    return max(int(np.float32(rate) * np.float32(min(seconds, _LONGEST))), 1) if seconds > 0 else 0


def pieces(samples: Samples, size: int) -> Iterator[tuple[Samples, bool]]:
    """Yields pieces of `size` samples, 0 for all, and whether each is the last; one empty piece without samples."""
    size = size or max(len(samples), 1)
    for first in range(0, max(len(samples), 1), size):
        yield samples[first : first + size], first + size >= len(samples)


def whole_rate(rate: float) -> int:
    """Returns a sample rate without the part behind its point, which Kaldi's resampler drops. Raises ArgumentError."""
    if not isinstance(rate, Real) or isinstance(rate, bool) or not _RATES[0] <= rate <= _RATES[1]:
        raise ArgumentError(f"a sample rate must be a number from {_RATES[0]} to {_RATES[1]}, got {rate!r:.80}")
    return int(rate)


class Resampler:
    """Changes the rate of samples, which come in pieces, by Kaldi's windowed sinc.

    Input rate a, output rate b, z zero crossings (`crossings`), cutoff c (`cutoff` in Hz), or else min(a, b) / 2 times
    `band` in hundredths: 100 in Kaldi's online features, 99 in its programs for whole recordings. Output i is the sum
    over inputs j of x_j h(j/a - i/b) / a, where h(d) = (1 + cos(2 pi c d / z)) sin(2 pi c d) / (2 pi d) for
    |d| < W = z / (2 c). No bit of the result depends on the pieces.
    """

    def __init__(
        self,
        rate: float,
        output_rate: float,
        band: int = 100,
        *,
        cutoff: float | None = None,
        crossings: int = _ZERO_CROSSINGS,
    ):
        for each in (rate, output_rate):
            if not isinstance(each, Real) or not _RATES[0] <= each <= _RATES[1] or each != int(each):
                raise ArgumentError(
                    f"a sample rate must be a whole number from {_RATES[0]} to {_RATES[1]}, got {each!r}"
                )
        self.rate, self.output_rate = int(rate), int(output_rate)
        divisor = math.gcd(self.rate, self.output_rate)
        self._inputs, self._outputs = self.rate // divisor, self.output_rate // divisor  # of one period
        self._ticks = self.rate * self._outputs  # per second: the least common multiple of the rates
        doubled = (
            min(self.rate, self.output_rate) * band if cutoff is None else round(200 * cutoff)
        )  # hundredths of 2 c
        width = 100 * crossings
        self._half_width = width * self._ticks // doubled  # ticks
        phases = np.arange(self._outputs, dtype=np.int64)
        # In units of 1/(b m) seconds, with m = 200 c, all is whole: (i/b - W) a = a (i m - 100 z b) / (b m).
        unit, center, width = self.output_rate * doubled, phases * doubled, width * self.output_rate
        self._first = -(-(self.rate * (center - width)) // unit)  # first input of each output of a period
        last = self.rate * (center + width) // unit
        taps = np.arange(int((last - self._first).max()) + 1)
        distance = (self._first[:, np.newaxis] + taps) / self.rate - phases[:, np.newaxis] / self.output_rate
        self._weights = _window(distance, doubled / 200, crossings) / self.rate  # (outputs of a period, taps)
        self._weights[taps > (last - self._first)[:, np.newaxis]] = 0
        self._start = int(self._first.min())  # before input 0 there are zeros, as behind the last one
        self._waiting = np.zeros(-self._start)  # inputs from number `_start` on
        self._done = 0  # outputs

    def accept(self, samples: Samples, last: bool = False) -> Samples:
        """Returns the outputs computable with `samples`, (n,); all remaining outputs if the samples are the last."""
        self._waiting = np.concatenate([self._waiting, samples])
        given = self._start + len(self._waiting)
        ticks = given * self._outputs - (0 if last else self._half_width)
        count = max(-(-ticks // self._inputs), 0)
        numbers = np.arange(self._done, max(count, self._done))
        periods, phases = np.divmod(numbers, self._outputs)
        first = self._first[phases] + periods * self._inputs - self._start
        needed = int(first.max(initial=0)) + self._weights.shape[1]
        padded = np.pad(self._waiting, (0, max(needed - len(self._waiting), 0)))
        outputs = np.zeros(len(numbers))
        for tap, weights in enumerate(self._weights.T):  # one order of additions, however the samples are cut
            outputs += weights[phases] * padded[first + tap]
        self._done += len(numbers)
        period, phase = divmod(self._done, self._outputs)
        unused = min(int(self._first[phase]) + period * self._inputs - self._start, len(self._waiting))
        self._waiting, self._start = self._waiting[max(unused, 0) :], self._start + max(unused, 0)
        return outputs.astype(np.float32)


def _window(distance: npt.NDArray[np.float64], cutoff: float, crossings: int) -> npt.NDArray[np.float64]:
    """Returns h(distance), in seconds."""
    inside = np.abs(distance) < crossings / (2 * cutoff)
    window = 0.5 * (1 + np.cos(2 * np.pi * cutoff * distance / crossings))
    return np.where(inside, window * 2 * cutoff * np.sinc(2 * cutoff * distance), 0.0)
