"""Wave: samples of audio as the input of a file, whose graph computes the features.

Frames are cut from the padded samples: sample p is x[p - pad], and frame t begins at p = t * shift. Without snip-edges
samples before the first and behind the last one are mirrored, as Kaldi does it; with snip-edges pad is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from nnet3.errors import ExportError
from nnet3.export.graph import GraphBuilder
from nnet3.export.nnet.features import FeatureOptions, add_features
from nnet3.export.nnet.file_forms import FrameRange
from nnet3.export.nnet.sources import Fed, Form, Given, Source
from nnet3.export.nnet.streams import NEXT, Streams
from nnet3.speech.features.features import FeatureStream, read_feature_options

WAVE, COUNT, FRAMES = "wave", "count", "frames"
REST, LAST_FRAME, END = "wave.rest", "wave.frame", "wave.end"
_KINDS = "mfcc", "fbank"  # of features that a graph computes
_LOUDNESS = 1000.0  # of random samples
_MOST_SAMPLES = 8192  # of a Fourier transform, whose factors are 270 MB then


@dataclass(frozen=True)
class Wave(Source):
    """Samples (batch, samples), in the scale of 16 bits, of which features of a kind are computed."""

    kind: str
    options: FeatureOptions

    @property
    def _length(self) -> int:
        return self.options.frame_samples

    @property
    def _shift(self) -> int:
        return self.options.shift_samples

    @property
    def _pad(self) -> int:
        return -self.options.start_sample

    @property
    def _rest(self) -> int:
        """The samples kept by a stream: more than are mirrored, so that its first call is longer than later calls."""
        return max(self._length - self._shift, self._pad + 1, 1)

    def _first_samples(self, form: Streams) -> int:
        return form.first_frames * self._shift + self._rest - self._pad

    def _next_samples(self, form: Streams) -> int:
        return form.program.frames_per_chunk * self._shift

    def sizes(self, form: Form) -> dict[str, Any]:
        sizes: dict[str, Any] = {
            "features": self.kind,
            "sample_frequency": self.options.sample_frequency,
            "frame_samples": self._length,
            "shift_samples": self._shift,
            "start_sample": self.options.start_sample,
            "snip_edges": self.options.snip_edges,
        }
        if isinstance(form, FrameRange):
            return sizes | {"input_samples": self._samples_of(form.frames)}
        if isinstance(form, Streams):
            return sizes | {"input_samples": self._next_samples(form), "first_samples": self._first_samples(form)}
        return sizes

    def _samples_of(self, frames: int) -> int:
        return (frames - 1) * self._shift + self._length

    def state(self, form: Form) -> dict[str, tuple[int, ...]]:
        if not isinstance(form, Streams):
            return {}
        return {REST: (self._rest,), LAST_FRAME: (1, self.options.dim), END: (1,)}

    # ---- graphs ----

    def feed(self, graph: GraphBuilder, form: Form) -> Fed:
        if isinstance(form, Streams):
            return self._stream(graph, form)
        return self._chunk(graph, form) if isinstance(form, FrameRange) else self._utterance(graph)

    def _utterance(self, graph: GraphBuilder) -> Fed:
        wave = graph.tensor(WAVE, ["batch", "samples"])
        count = graph.op("Shape", wave, start=1, end=2)
        positions = graph.op("Sub", self._positions(graph, self._frames_of(graph, count)), graph.integers(self._pad))
        return Fed(self._features(graph, wave, _mirrored(graph, positions, count)), [wave], {})

    def _chunk(self, graph: GraphBuilder, form: FrameRange) -> Fed:
        """Frames before the first real frame and behind the last are copies of the first and the last."""
        wave = graph.tensor(WAVE, ["batch", self._samples_of(form.frames)])
        frames = graph.tensor(FRAMES, ["batch", 2], ir.DataType.INT64)
        features = self._features(graph, wave, self._positions(graph, graph.integers(form.frames)))
        first, last = (graph.cut(frames, 1, number, number + 1) for number in range(2))
        numbers = graph.op("Max", graph.constant(np.arange(form.frames)), first)
        return Fed(_rows(graph, features, graph.op("Min", numbers, last)), [wave, frames], {})

    def _stream(self, graph: GraphBuilder, form: Streams) -> Fed:
        """Emits the input of a stream: the first call is known by its samples; the first call not full is the last."""
        op, integers, pad, rest = graph.op, graph.integers, self._pad, self._rest
        wave = graph.tensor(WAVE, ["batch", "samples"])
        count = graph.tensor(COUNT, ["batch"], ir.DataType.INT64)
        state = {name: graph.tensor(name, ["batch", *shape]) for name, shape in self.state(form).items()}
        is_first = op("Equal", op("Shape", wave, start=1, end=2), integers(self._first_samples(form)))

        def either(first: int, later: int) -> ir.Value:
            return op("Where", is_first, integers(first), integers(later))

        size = either(self._first_samples(form), self._next_samples(form))
        sized = op("Reshape", wave, op("Concat", integers(0), size, axis=0))  # fails for other numbers
        frames = either(form.first_frames, form.program.frames_per_chunk)
        moved = op("Mul", frames, integers(self._shift))
        before = op("Where", is_first, integers(pad), op("Cast", state[END], to=ir.DataType.INT64))
        end = op("Add", before, op("Unsqueeze", count, integers(1)))  # of the stream, from where its next frame begins
        positions = op("Sub", _range(graph, op("Add", moved, integers(rest))), either(pad, 0))
        positions = _mirrored(graph, positions, op("Sub", end, either(pad, 0)))
        known = op("Concat", state[REST], sized, axis=1)
        samples = op("GatherElements", known, op("Add", positions, either(rest, 0)), axis=1)
        computed = self._features(graph, samples, self._positions(graph, frames))
        given = self._frames_of(graph, op("Sub", end, integers(pad)))
        numbers = op("Min", op("Add", _range(graph, frames), integers(1)), given)
        features = _rows(graph, op("Concat", state[LAST_FRAME], computed, axis=1), numbers)
        behind = op("Max", op("Sub", end, moved), integers(0))
        after = {
            REST: graph.cut(samples, 1, -rest),
            LAST_FRAME: graph.cut(features, 1, -1),
            END: op("Cast", behind, to=ir.DataType.FLOAT),
        }
        shapes = self.state(form)
        outputs = {graph.tensor(f"{NEXT}{name}", ["batch", *shapes[name]]): made for name, made in after.items()}
        return Fed(features, [wave, count, *state.values()], outputs)

    def _frames_of(self, graph: GraphBuilder, count: ir.Value) -> ir.Value:
        """Returns the number of frames of `count` samples."""
        more = self._shift - self._length if self.options.snip_edges else self._shift // 2
        enough = graph.op("Max", graph.op("Add", count, graph.integers(more)), graph.integers(0))
        return graph.op("Div", enough, graph.integers(self._shift))

    def _positions(self, graph: GraphBuilder, frames: ir.Value) -> ir.Value:
        """Returns the positions of samples, (frames, frame_samples)."""
        starts = graph.op("Mul", _range(graph, frames), graph.integers(self._shift))
        return graph.op(
            "Add", graph.op("Unsqueeze", starts, graph.integers(1)), graph.constant(np.arange(self._length))
        )

    def _features(self, graph: GraphBuilder, samples: ir.Value, positions: ir.Value) -> ir.Value:
        return add_features(graph, graph.op("Gather", samples, positions, axis=1), self.options)

    # ---- random input ----

    def random_input(
        self, random: np.random.Generator, form: Form, batch: int, frames: int
    ) -> tuple[Given, np.ndarray]:
        if isinstance(form, FrameRange):
            wave = _random_wave(random, batch, self._samples_of(frames))
            numbers = np.sort(random.integers(0, frames, (batch, 2)))
            numbers[0] = 0, frames - 1
            inside = replace(self, options=replace(self.options, snip_edges=True))
            chosen = np.arange(frames).clip(numbers[:, :1], numbers[:, 1:])
            return {WAVE: wave, FRAMES: numbers}, np.take_along_axis(inside._computed(wave), chosen[..., None], axis=1)
        samples = self._samples_of(frames) if self.options.snip_edges else frames * self._shift - self._shift // 2
        wave = _random_wave(random, batch, samples + int(random.integers(self._shift)))
        return {WAVE: wave}, self._computed(wave)

    def random_streams(
        self, random: np.random.Generator, form: Streams, batch: int, calls: int
    ) -> Iterator[tuple[Given, np.ndarray]]:
        """Yields the samples of each call: the first stream goes on, the others end before the last call."""
        sizes = np.array([self._first_samples(form), *[self._next_samples(form)] * (calls - 1)])
        wave = _random_wave(random, batch, int(sizes.sum()))
        totals = random.integers(self._samples_of(1), max(int(sizes[:-1].sum()), self._samples_of(1)) + 1, batch)
        totals[0] = wave.shape[1]
        features = [self._computed(wave[i : i + 1, :total])[0] for i, total in enumerate(totals)]
        start, first = 0, 0
        for call, size in enumerate(sizes):
            frames = form.program.frames_per_chunk if call else form.first_frames
            numbers = np.arange(first, first + frames)
            given = {WAVE: wave[:, start : start + size], COUNT: (totals - start).clip(0, size)}
            yield given, np.stack([rows[numbers.clip(max=len(rows) - 1)] for rows in features])
            start, first = start + size, first + frames

    def _computed(self, wave: np.ndarray) -> np.ndarray:
        rate = self.options.sample_frequency
        return np.stack([FeatureStream(self.options, rate).accept(samples, last=True) for samples in wave])


def read_wave(features: str, dim: int) -> Wave:
    """Returns the source that "mfcc:FILE" or "fbank:FILE" names; FILE is a config file of Kaldi's.

    Raises ExportError for what no graph can do, and where a network wants features of another `dim`.
    """
    kind, _, path = features.partition(":")
    if kind not in _KINDS or not path:
        raise ExportError(f"features must be mfcc:FILE or fbank:FILE, with a config file of Kaldi's, got '{features}'")
    options = cast("FeatureOptions", read_feature_options(path, kind))
    if options.dither:
        raise ExportError(f"{path}: dither cannot be in the file, which computes the same every time: say --dither=0")
    if options.transform_samples > _MOST_SAMPLES:
        raise ExportError(
            f"{path}: a Fourier transform in a file takes up to {_MOST_SAMPLES} samples, as it is a product with a "
            f"matrix, got {options.transform_samples}: choose shorter frames"
        )
    if options.dim != dim:
        raise ExportError(f"{path}: these features have dimension {options.dim}, the network's input has {dim}")
    return Wave(dim, kind, options)


def _random_wave(random: np.random.Generator, batch: int, samples: int) -> np.ndarray:
    return (_LOUDNESS * random.standard_normal((batch, samples))).astype(np.float32)


def _range(graph: GraphBuilder, count: ir.Value) -> ir.Value:
    """Returns 0, 1, ..., for a count (1,)."""
    zero, one = (graph.constant(np.array(number)) for number in (0, 1))
    return graph.op("Range", zero, graph.op("Squeeze", count), one)


def _mirrored(graph: GraphBuilder, positions: ir.Value, count: ir.Value) -> ir.Value:
    """Returns positions between 0 and a count; positions beyond are mirrored at either end: -1 is 0, -2 is 1."""
    twice = graph.op("Mul", graph.op("Max", count, graph.integers(1)), graph.integers(2))
    turned = graph.op("Mod", positions, twice)
    return graph.op("Min", turned, graph.op("Sub", graph.op("Sub", twice, graph.integers(1)), turned))


def _rows(graph: GraphBuilder, features: ir.Value, numbers: ir.Value) -> ir.Value:
    """Returns rows of features, by their numbers (batch, rows)."""
    return graph.op("GatherND", features, graph.op("Unsqueeze", numbers, graph.integers(2)), batch_dims=1)
