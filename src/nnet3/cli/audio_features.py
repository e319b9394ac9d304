"""Makes tables of features of recordings (Kaldi: compute-mfcc-feats, compute-fbank-feats)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from nnet3.asr.audio import PcmReader
from nnet3.asr.audio_file import AudioSource, open_audio
from nnet3.asr.features import FeatureStream, check_mel_bins
from nnet3.cli.messages import LeftOut, say
from nnet3.cli.recordings import recordings_of_table
from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import NO_TABLE, matrix_writer, real_writer
from nnet3.options import FbankOptions, MfccOptions

_PIECE_SECONDS = 10.0
_BAND_OF_WHOLE_RECORDINGS = 99  # what Kaldi's programs leave of the band when they change the rate


def write_audio_features(
    recordings: str, output: str, options: MfccOptions | FbankOptions, durations: str, **chosen: Any
) -> int:
    """Writes features of all recordings that can be read. Returns 1, an exit status, if there were none.

    `durations`: a table of seconds to write, "" for none. Raises ArgumentError for mel bins that are always empty.
    """
    check_mel_bins(options)
    total, left_out = 0, LeftOut("{}: {}; left out")
    with matrix_writer(output) as writer, real_writer(durations or NO_TABLE) as lengths:
        for key, recording in recordings_of_table(recordings, open_audio):
            total += 1
            if isinstance(recording, Nnet3Error):
                say(f"warning: {recording}; left out")
                continue
            made = left_out.made(key, partial(_features, **chosen), recording, options)
            if made is not None:
                writer.write(key, made[0])
                lengths.write(key, made[1])
        say(f"Done {writer.count} out of {total} utterances.")
        return int(writer.count == 0)


def _features(
    recording: AudioSource, options: MfccOptions | FbankOptions, *, channel: int, least_seconds: float, less_mean: bool
) -> tuple[np.ndarray, float]:
    """Returns features, (frames, columns), of a channel (-1: the first), less their mean or not, and the seconds.

    Raises Nnet3Error if there are none, or if the recording is shorter than so many seconds.
    """
    if channel >= recording.channels:
        raise Nnet3Error(f"there is no channel {channel} of {recording.channels}: --channel counts from 0")
    reader = PcmReader(recording.channels, max(channel, 0))
    samples = np.concatenate([reader.read(part) for part in recording.pieces(_PIECE_SECONDS)])
    if recording.notice:
        say(f"warning: {recording.source}: {recording.notice}")
    if recording.channels > 1 and channel < 0:
        say(f"warning: {recording.source}: {recording.channels} channels, of which the first is taken (--channel)")
    seconds = len(samples) / recording.rate
    if seconds < least_seconds:
        raise Nnet3Error(f"it lasts {seconds:g} s, less than --min-duration={least_seconds:g}")
    rows = FeatureStream(options, recording.rate, _BAND_OF_WHOLE_RECORDINGS).accept(samples, last=True)
    if not len(rows):
        raise Nnet3Error(f"{seconds:g} s are too short for a frame of {options.frame_length:g} ms")
    return (rows - rows.mean(axis=0) if less_mean else rows), seconds
