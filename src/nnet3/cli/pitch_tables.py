"""Makes tables of pitch, and of features of pitch, of recordings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnet3.base.kaldi_io.table_values import matrix_writer
from nnet3.base.options.pitch import PitchFeatureOptions, PitchOptions
from nnet3.cli.audio_features import each_recording, samples_of_channel
from nnet3.cli.feature_tables import write_changed
from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.speech.arrays.aliases import Rows
from nnet3.speech.features.audio import Samples
from nnet3.speech.features.audio_source import AudioSource
from nnet3.speech.features.pitch import PitchTracker, pieces
from nnet3.speech.features.pitch_features import Noise, PitchFeatures, PitchFeatureStream
from nnet3.training.examples.c_random import CRandom

_FIRST_SEED = 1  # of a program that never calls srand


def write_pitch(recordings: str, output: str, options: PitchOptions) -> int:
    """Writes NCCF and pitch, (frames, 2), of recordings. Returns 1, an exit status, if none can be read."""

    def pitch(samples: Samples) -> Rows:
        tracker, found = PitchTracker(options), list[Rows]()
        for piece, last in pieces(samples, options):
            tracker.accept(piece, last)
            if options.simulate_first_pass_online:
                found.append(tracker.found(sum(map(len, found))))
        return np.concatenate(found) if found else tracker.found()

    return _write(recordings, output, options, pitch)


def write_pitch_features(recordings: str, output: str, options: PitchOptions, features: PitchFeatureOptions) -> int:
    """Writes features of pitch, (frames, columns), of recordings. Returns 1, an exit status, if none can be read."""
    noise = drawn_noise()

    def made(samples: Samples) -> Rows:
        stream = PitchFeatureStream(options, features, options.sample_frequency, noise, forgets=False)
        found = [stream.accept(piece, last) for piece, last in pieces(samples, options)]
        if options.simulate_first_pass_online:
            return np.concatenate([*found, np.zeros((0, features.dim), np.float32)])
        return stream.at(np.arange(stream.num_frames))

    return _write(recordings, output, options, made)


def process(source: str, output: str, options: PitchFeatureOptions, seed: int) -> int:
    """Writes features of tables of NCCF and pitch. Returns 1, an exit status, if there were none."""
    noise = drawn_noise(seed)

    def made(_: str, pitches: Rows) -> Rows:
        return PitchFeatures(options, noise).of(pitches, np.arange(len(pitches) + options.delay))

    return write_changed(source, output, made, "Post-processed pitch for")


def _write(recordings: str, output: str, options: PitchOptions, make: Callable[[Samples], Rows]) -> int:
    def made(recording: AudioSource) -> Rows:
        if recording.rate != options.sample_frequency:
            raise ArgumentError(f"it has {recording.rate} Hz, --sample-frequency says {options.sample_frequency:g}")
        rows = make(samples_of_channel(recording, -1))
        if not len(rows):
            raise Nnet3Error("it is too short for a frame")
        return rows

    with matrix_writer(output) as writer:
        for key, rows in each_recording(recordings, made):
            writer.write(key, rows)
        return int(writer.count == 0)


def drawn_noise(seed: int = _FIRST_SEED) -> Noise:
    """Returns a function that draws normal numbers as Kaldi's programs do."""
    random = CRandom(seed)
    return lambda count: np.array([random.gauss() for _ in range(count)])
