"""Features of frames of samples as nodes of a graph: MFCCs and mel bins as kaldi-native-fbank computes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from nnet3.base.options.recognizer import FbankOptions, MfccOptions
from nnet3.export.graph import GraphBuilder
from nnet3.export.smaller import UNCHANGED
from nnet3.speech.features.features import frame_window, mel_weights

FeatureOptions = MfccOptions | FbankOptions

_LEAST = float(np.finfo(np.float32).eps)  # of energies


def add_features(graph: GraphBuilder, frames: ir.Value, options: FeatureOptions) -> ir.Value:
    """Returns the features, (batch, frames, dim), of samples (batch, frames, frame_samples)."""
    return _Features(graph, options).of(frames)


class _Features:
    def __init__(self, graph: GraphBuilder, options: FeatureOptions) -> None:
        self._graph, self._options = graph, options

    def of(self, frames: ir.Value) -> ir.Value:
        graph, options = self._graph, self._options
        op = graph.op
        if options.remove_dc_offset:
            frames = op("Sub", frames, op("ReduceMean", frames, graph.integers(-1), keepdims=1))
        raw = frames
        if options.preemphasis_coefficient:
            before = op("Concat", graph.cut(raw, 2, 0, 1), graph.cut(raw, 2, 0, -1), axis=2)
            frames = op("Sub", raw, op("Mul", before, self._graph.scalar(options.preemphasis_coefficient)))
        frames = op("Mul", frames, self._weight("window", lambda: frame_window(options)))
        features = self._cepstra(self._mel_bins(frames)) if isinstance(options, MfccOptions) else self._mel_bins(frames)
        if not options.use_energy:
            return features
        energy = self._log_energy(raw if options.raw_energy else frames)
        return op("Concat", *((features, energy) if options.htk_compat else (energy, features)), axis=2)

    def _mel_bins(self, frames: ir.Value) -> ir.Value:
        op, options = self._graph.op, self._options
        weights = mel_weights(options)
        used = np.flatnonzero(weights.any(axis=0))  # of the transform
        angles = np.outer(np.arange(options.frame_samples), used) * (2 * np.pi / options.transform_samples)
        parts = [
            op("MatMul", frames, self._weight(name, lambda wave=wave: wave(angles)))  # type: ignore[misc]
            for name, wave in (("cosines", np.cos), ("sines", np.sin))
        ]
        power = op("Add", *(op("Mul", part, part) for part in parts))
        if isinstance(options, FbankOptions) and not options.use_power:
            power = op("Sqrt", power)
        mel = op("MatMul", power, self._weight("mel", lambda: weights[:, used].T))
        return mel if isinstance(options, FbankOptions) and not options.use_log_fbank else self._log(mel)

    def _cepstra(self, mel: ir.Value) -> ir.Value:
        """Returns cepstral coefficients, without C0 if energy takes its place."""
        options = self._options
        assert isinstance(options, MfccOptions)
        return self._graph.op("MatMul", mel, self._weight("cosine_transform", lambda: cosine_transform(options)))

    def _log_energy(self, frames: ir.Value) -> ir.Value:
        graph, floor = self._graph, self._options.energy_floor
        energy = graph.op("ReduceSumSquare", frames, graph.integers(-1), keepdims=1)
        return self._log(energy, max(floor, _LEAST) if floor > 0 else _LEAST)

    def _log(self, energy: ir.Value, least: float = _LEAST) -> ir.Value:
        return self._graph.op("Log", self._graph.op("Max", energy, self._graph.scalar(least)))

    def _weight(self, name: str, make: Callable[[], np.ndarray]) -> ir.Value:
        return self._graph.weight(UNCHANGED + name, make)


def cosine_transform(options: MfccOptions) -> np.ndarray:
    """Returns what cepstra are made with of logarithms of mel bins, (bins, coefficients), without C0 for energy."""
    bins, numbers = options.num_mel_bins, np.arange(options.num_ceps)
    rows = np.cos(np.pi / bins * np.outer(np.arange(bins) + 0.5, numbers)) * np.sqrt(2 / bins)
    rows[:, 0] = np.sqrt(1 / bins)
    if options.cepstral_lifter:
        rows *= 1 + options.cepstral_lifter / 2 * np.sin(np.pi * numbers / options.cepstral_lifter)
    if options.use_energy:
        return rows[:, 1:]
    return np.concatenate([rows[:, 1:], rows[:, :1] * np.sqrt(2)], axis=1) if options.htk_compat else rows
