"""Copies recordings as WAV files, and tells how long they last."""

from __future__ import annotations

import numpy as np

from nnet3.base.kaldi_io.load import write_wxfilename
from nnet3.base.kaldi_io.specifiers import is_table
from nnet3.base.kaldi_io.table_values import real_writer
from nnet3.base.kaldi_io.table_writer import TableWriter
from nnet3.base.kaldi_io.writer import Writer
from nnet3.cli.audio_features import each_recording
from nnet3.cli.messages import say
from nnet3.cli.recordings import recordings_of
from nnet3.errors import Nnet3Error
from nnet3.speech.features.audio import PcmReader
from nnet3.speech.features.audio_file import open_audio
from nnet3.speech.features.audio_source import AudioSource
from nnet3.speech.features.wave_table import WaveData, write_wave

_PIECE_SECONDS = 60.0


def copy(source: str, output: str) -> int:
    """Copies the recordings of a table, or one in a file. Returns 1, an exit status, if there were none."""
    if is_table(source) != is_table(output):
        raise Nnet3Error(f"{source}, {output}: give two tables or two files")
    if is_table(source):
        with TableWriter(output, write_wave, header=False) as table:
            for entry in each_recording(source, _as_wave):
                table.write(*entry)
            return int(table.count == 0)
    for _, recording in recordings_of(source, open_audio):
        if isinstance(recording, Nnet3Error):
            raise recording
        writer = Writer(binary=True)
        write_wave(writer, _as_wave(recording))
        write_wxfilename(output, writer)
    return 0


def _as_wave(recording: AudioSource) -> WaveData:
    """Returns all channels of a recording in 16 bits."""
    readers = [PcmReader(recording.channels, channel) for channel in range(recording.channels)]
    parts = [np.stack([reader.read(part) for reader in readers], axis=1) for part in recording.pieces(_PIECE_SECONDS)]
    return WaveData.of(recording.rate, np.concatenate(parts))


def write_durations(recordings: str, output: str, counts: bool) -> int:
    """Writes seconds, as headers say, or with `counts` as samples do. Returns 1, an exit status, if there were none."""

    def seconds(recording: AudioSource) -> float:
        said = None if counts else recording.seconds
        if said is not None:
            return said
        return sum(len(part) for part in recording.pieces(_PIECE_SECONDS)) / recording.rate

    with real_writer(output) as writer:
        found = []
        for key, duration in each_recording(recordings, seconds):
            writer.write(key, duration)
            found.append(duration)
    if found:
        mean = sum(found) / len(found)
        say(f"Mean duration was {mean:g}, min and max durations were {min(found):g}, {max(found):g}")
    return int(not found)
