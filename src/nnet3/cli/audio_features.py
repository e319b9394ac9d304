"""Makes tables of features of recordings (Kaldi: compute-mfcc-feats, compute-fbank-feats)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3.asr.audio import PcmReader
from nnet3.asr.audio_file import AudioSource, open_audio
from nnet3.asr.features import FeatureStream
from nnet3.cli.messages import say
from nnet3.cli.recordings import recordings_of_table
from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import NO_TABLE, matrix_writer, real_writer
from nnet3.options import FbankOptions, MfccOptions

_PIECE_SECONDS = 10.0


@dataclass(frozen=True)
class RecordingOptions:
    """Names the channel of recordings that is taken (-1: the first) and the seconds that they last at least.

    `less_mean`: subtract the mean of each. `durations`: a table of seconds to write, "" for none.
    """

    channel: int
    least_seconds: float
    less_mean: bool
    durations: str


def write_audio_features(
    recordings: str, output: str, options: MfccOptions | FbankOptions, chosen: RecordingOptions
) -> int:
    """Writes features of all recordings that can be read. Returns 1, an exit status, if there were none."""
    total = 0
    with matrix_writer(output) as writer, real_writer(chosen.durations or NO_TABLE) as durations:
        for key, recording in recordings_of_table(recordings, open_audio):
            total += 1
            if isinstance(recording, Nnet3Error):
                say(f"warning: {recording}; left out")
                continue
            try:
                rows, seconds = _features(recording, options, chosen)
            except Nnet3Error as error:
                say(f"warning: {key}: {error}; left out")
                continue
            writer.write(key, rows)
            durations.write(key, seconds)
        say(f"Done {writer.count} out of {total} utterances.")
        return int(writer.count == 0)


def _features(
    recording: AudioSource, options: MfccOptions | FbankOptions, chosen: RecordingOptions
) -> tuple[np.ndarray, float]:
    """Returns features, (frames, columns), and the seconds of a recording. Raises Nnet3Error if there are none."""
    if chosen.channel >= recording.channels:
        raise Nnet3Error(f"there is no channel {chosen.channel} of {recording.channels}: --channel counts from 0")
    reader = PcmReader(recording.channels, max(chosen.channel, 0))
    samples = np.concatenate([reader.read(part) for part in recording.pieces(_PIECE_SECONDS)])
    if recording.notice:
        say(f"warning: {recording.source}: {recording.notice}")
    if recording.channels > 1 and chosen.channel < 0:
        say(f"warning: {recording.source}: {recording.channels} channels, of which the first is taken (--channel)")
    seconds = len(samples) / recording.rate
    if seconds < chosen.least_seconds:
        raise Nnet3Error(f"it lasts {seconds:g} s, less than --min-duration={chosen.least_seconds:g}")
    rows = FeatureStream(options, recording.rate).accept(samples, last=True)
    if not len(rows):
        raise Nnet3Error(f"{seconds:g} s are too short for a frame of {options.frame_length:g} ms")
    return (rows - rows.mean(axis=0) if chosen.less_mean else rows), seconds
