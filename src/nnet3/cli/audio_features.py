"""Makes tables of features of recordings, and of online ivectors of features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np

from nnet3.base.kaldi_io.specifiers import NO_TABLE
from nnet3.base.kaldi_io.table_values import matrix_writer, random_access_vectors, real_writer
from nnet3.base.options.recognizer import FeatureOptions, IvectorOptions
from nnet3.cli.feature_tables import write_by_speaker
from nnet3.cli.messages import LeftOut, say
from nnet3.cli.recordings import recordings_of_table
from nnet3.errors import Nnet3Error
from nnet3.speech.features.audio import PcmReader, Samples
from nnet3.speech.features.audio_file import open_audio
from nnet3.speech.features.audio_source import AudioSource
from nnet3.speech.features.features import FeatureStream, check_mel_bins
from nnet3.speech.features.ivectors import IvectorFiles, SpeakerState

T = TypeVar("T")
_PIECE_SECONDS = 10.0
_BAND_OF_WHOLE_RECORDINGS = 99  # what Kaldi's programs leave of the band when they change the rate
_PITCH = 3  # columns of pitch behind those of the features, which extractors do not know


def write_audio_features(recordings: str, output: str, options: FeatureOptions, durations: str, **chosen: Any) -> int:
    """Writes features of all recordings that can be read. Returns 1, an exit status, if there were none.

    `durations`: a table of seconds to write, "" for none. Raises ArgumentError for mel bins that are always empty.
    """
    check_mel_bins(options)
    with matrix_writer(output) as writer, real_writer(durations or NO_TABLE) as lengths:
        for key, made in each_recording(recordings, partial(_features, options=options, **chosen)):
            writer.write(key, made[0])
            lengths.write(key, made[1])
        return int(writer.count == 0)


def each_recording(recordings: str, make: Callable[[AudioSource], T]) -> Iterator[tuple[str, T]]:
    """Yields the key and the result of `make` for each readable recording of a table; logs the number of recordings."""
    total, done, left_out = 0, 0, LeftOut("{}: {}; left out")
    for key, recording in recordings_of_table(recordings, open_audio):
        total += 1
        if isinstance(recording, Nnet3Error):
            say(f"warning: {recording}; left out")
            continue
        made = left_out.made(key, make, recording)
        if made is not None:
            done += 1
            yield key, made
    say(f"Done {done} out of {total} utterances.")


def _features(
    recording: AudioSource, options: FeatureOptions, *, channel: int, least_seconds: float, less_mean: bool
) -> tuple[np.ndarray, float]:
    """Returns features, (frames, columns), of a channel (-1: the first), less their mean or not, and the seconds.

    Raises Nnet3Error if there are none, if one is not finite, or if the recording is shorter than so many seconds.
    """
    samples = samples_of_channel(recording, channel)
    seconds = len(samples) / recording.rate
    if seconds < least_seconds:
        raise Nnet3Error(f"it lasts {seconds:g} s, less than --min-duration={least_seconds:g}")
    rows = FeatureStream(options, recording.rate, _BAND_OF_WHOLE_RECORDINGS).accept(samples, last=True)
    if not len(rows):
        raise Nnet3Error(f"{seconds:g} s are too short for a frame of {options.frame_length:g} ms")
    if not np.isfinite(rows).all():
        raise Nnet3Error("its features have a NaN or an infinity: are there options of features out of the ordinary?")
    return (rows - rows.mean(axis=0) if less_mean else rows), seconds


def samples_of_channel(recording: AudioSource, channel: int) -> Samples:
    """Returns all samples of a channel, (n,); for -1 those of the first, with a warning.

    Raises Nnet3Error for a missing channel.
    """
    if channel >= recording.channels:
        raise Nnet3Error(f"there is no channel {channel} of {recording.channels}: --channel counts from 0")
    reader = PcmReader(recording.channels, max(channel, 0))
    samples = np.concatenate([reader.read(part) for part in recording.pieces(_PIECE_SECONDS)])
    if recording.notice:
        say(f"warning: {recording.source}: {recording.notice}")
    if recording.channels > 1 and channel < 0:
        say(f"warning: {recording.source}: {recording.channels} channels, of which the first is taken (--channel)")
    return samples


def write_online_ivectors(
    spk2utt: str, features: str, output: str, files: IvectorFiles, options: IvectorOptions, repeat: bool,
    frame_weights: str, tolerance: int,
) -> int:  # fmt: skip
    """Writes the ivectors of utterances, an ivector every `ivector_period` frames, or for every frame if `repeat`.

    The speaker's state goes on from one utterance to the next. `frame_weights` is a table of weights of frames; "" for
    1. Lengths may differ by `tolerance`: frames without a weight count nothing. Features with three columns too many
    are taken for features with pitch, which is left away. Returns 1, an exit status, if none is written.
    """
    model = files.load(options)
    weights_of = random_access_vectors(frame_weights) if frame_weights else None

    def estimated(key: str, rows: np.ndarray, speaker: SpeakerState | None) -> tuple[np.ndarray, SpeakerState]:
        if not len(rows) or not np.isfinite(rows).all():
            raise Nnet3Error("its features have a NaN or an infinity" if len(rows) else "it has no frames")
        weights = None if weights_of is None else _fitting(weights_of.get(key), len(rows), tolerance)
        if rows.shape[1] == model.feature_dim + _PITCH:
            rows = rows[:, : model.feature_dim]
        return model.compute(rows, speaker, weights, repeat)

    return write_by_speaker(features, output, spk2utt, estimated, "Estimated ivectors for {} files, {} with errors.")


def _fitting(weights: np.ndarray | None, frames: int, tolerance: int) -> np.ndarray:
    """Returns weights (frames,), zero for frames without a weight. Raises Nnet3Error if they do not fit."""
    if weights is None:
        raise Nnet3Error("there are no weights for it")
    if abs(len(weights) - frames) > tolerance:
        raise Nnet3Error(f"it has {frames} frames and {len(weights)} weights; --length-tolerance is {tolerance}")
    if not np.isfinite(weights).all():
        raise Nnet3Error("its weights have a NaN or an infinity")
    return np.pad(weights[:frames], (0, max(frames - len(weights), 0)))
