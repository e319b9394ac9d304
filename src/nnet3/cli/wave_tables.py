"""Tables of recordings: those of speakers, their features, and recordings made longer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nnet3.base.kaldi_io.load import open_rxfilename, write_wxfilename
from nnet3.base.kaldi_io.specifiers import is_table
from nnet3.base.kaldi_io.table_values import matrix_writer, open_words_table
from nnet3.base.kaldi_io.tables import RandomAccessTable
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.recognizer import OnlineFeatureOptions
from nnet3.base.options.waves import TrailingSilenceOptions
from nnet3.cli.messages import say
from nnet3.cli.pitch_tables import drawn_noise
from nnet3.errors import Nnet3Error
from nnet3.speech.asr.online_front import load_online_features
from nnet3.speech.features.ivectors import SpeakerState
from nnet3.speech.features.trailing_silence import with_silence
from nnet3.speech.features.wave_table import (
    WaveData,
    open_wave_table,
    random_access_waves,
    read_wave,
    wave_writer,
    write_wave,
)


class SpeakersRecordings:
    """The recordings of speakers' utterances; `missing` counts utterances without a recording."""

    def __init__(self, spk2utt: str, waves: str):
        self._spk2utt, self._waves, self.missing = spk2utt, waves, 0

    def __iter__(self) -> Iterator[Iterator[tuple[str, WaveData]]]:
        with open_words_table(self._spk2utt) as speakers, random_access_waves(self._waves) as recordings:
            for _, keys in speakers:
                yield self._of(keys, recordings)

    def _of(self, keys: list[str], recordings: RandomAccessTable[WaveData]) -> Iterator[tuple[str, WaveData]]:
        for key in keys:
            wave = recordings.get(key)
            if wave is None:
                say(f"warning: Did not find audio for utterance {key}")
                self.missing += 1
            else:
                yield key, wave


def print_ivector_dim(features: OnlineFeatureOptions) -> None:
    """Prints the dimension of ivectors, 0 without an extractor."""
    ivectors = load_online_features(features).ivectors
    print(0 if ivectors is None else ivectors.dim)


def dump_features(spk2utt: str, waves: str, output: str, features: OnlineFeatureOptions, chunk_length: float) -> int:
    """Writes the network's inputs for recordings: each frame, followed by the ivector of that moment.

    Pitch has the noise that Kaldi draws where features have no dither. Returns Kaldi's exit status: 1
    if nothing is written.
    """
    made, recordings = load_online_features(features), SpeakersRecordings(spk2utt, waves)
    too_short, frames, noise = 0, 0, drawn_noise()
    with matrix_writer(output) as writer:
        for utterances in recordings:
            known: SpeakerState | None = None
            for key, wave in utterances:
                rows, after = made.rows(wave.rate, wave.channel(0), chunk_length, known, noise)
                if not len(rows):
                    say(f"warning: Got no frames of data for utterance {key}")
                    too_short += 1
                    continue
                known, frames = after, frames + len(rows)
                writer.write(key, rows)
        failed = too_short + recordings.missing
        say(f"Processed {writer.count} utterances, {failed} with errors; {frames} frames in total.")
        return int(writer.count == 0)


def extend_with_silence(source: str, output: str, options: TrailingSilenceOptions) -> None:
    """Writes recordings with silence behind them: a table, or a file."""
    if is_table(source) != is_table(output):
        raise Nnet3Error("give a table and a table to write, or a file and a file to write")
    if not is_table(source):
        writer = Writer(True)
        write_wave(writer, _longer(read_wave(open_rxfilename(source)), options))
        write_wxfilename(output, writer)
        return
    with open_wave_table(source) as table, wave_writer(output) as waves:
        for key, wave in table:
            waves.write(key, _longer(wave, options))
        say(f"Successfully extended {waves.count} files.")


def _longer(wave: WaveData, options: TrailingSilenceOptions) -> WaveData:
    channels = [with_silence(wave.channel(number), wave.rate, options) for number in range(wave.samples.shape[1])]
    return WaveData.of(wave.rate, np.stack(channels, axis=1))
