"""Recordings with transcripts: a data folder of Kaldi's, or its files wav.scp and text alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.script import read_script
from nnet3.base.kaldi_io.table_values import open_words_table
from nnet3.cli.messages import say
from nnet3.cli.recordings import recordings_of_table
from nnet3.cli.scoring import each_once
from nnet3.cli.segments_file import Seconds, read_segments, rows_between
from nnet3.errors import Nnet3Error
from nnet3.speech.features.audio import PcmReader
from nnet3.speech.features.audio_file import open_audio
from nnet3.speech.features.audio_source import AudioSource
from nnet3.speech.tuning.speech_aligner import Spoken

_FILES = ("wav.scp", "text", "segments")
_PIECE_SECONDS = 10.0
_EXPECTED = "a folder with wav.scp and text (and segments, where a recording has several utterances), or SCP,TEXT"


@dataclass(frozen=True)
class SpeechData:
    """Utterances: recordings that `recordings`, a script, names, the words in the file `text`, and where the utterances
    lie in longer recordings, if `segments` says so."""

    recordings: str
    text: str
    segments: str = ""

    @classmethod
    def of(cls, name: str) -> SpeechData:
        """Returns the data of a folder, or of two files `SCP,TEXT`. Raises Nnet3Error if they are not there."""
        if Path(name).is_dir():
            recordings, text, segments = (str(Path(name) / file) for file in _FILES)
            found = cls(recordings, text, segments if Path(segments).exists() else "")
        else:
            recordings, comma, text = name.rpartition(",")
            if not comma:
                raise Nnet3Error(f"{name}: there is no such folder: expected {_EXPECTED}")
            found = cls(recordings, text)
        for file in (found.recordings, found.text):
            if not Path(file).is_file():
                raise Nnet3Error(f"{file}: there is no such file: expected {_EXPECTED}")
        return found

    @cached_property
    def transcripts(self) -> dict[str, tuple[str, ...]]:
        """The words of each utterance. Raises Nnet3Error for a text that has none, or an utterance twice."""
        with open_words_table(f"ark:{self.text}") as table:
            found = {key: tuple(words) for key, words in each_once(table, self.text)}
        if not found:
            raise Nnet3Error(f"{self.text}: there is no transcript: expected lines KEY WORD...")
        return found

    @cached_property
    def recorded(self) -> list[str]:
        """The utterances with a transcript and a recording; warns of transcripts without.

        Raises Nnet3Error if there are none.
        """
        named = {
            key for key, _ in each_once(((each.key, each) for each in read_script(self.recordings)), self.recordings)
        }
        if self.segments:
            named = {key for recording, parts in self._parts.items() if recording in named for key in parts}
        missing = [key for key in self.transcripts if key not in named]
        lack = f"{self.recordings} has no recording of {len(missing)} utterances, such as '{next(iter(missing), '')}'"
        if len(missing) == len(self.transcripts):
            raise Nnet3Error(f"{lack}: there are no others in {self.text}")
        if missing:
            say(f"warning: {lack}")
        return [key for key in self.transcripts if key in named]

    def utterances(self, keys: Collection[str]) -> Iterator[Spoken]:
        """Yields the given utterances in the order of their recordings; names utterances that cannot be read."""
        parts, chosen, unread = self._parts, set(keys), 0
        for recording, source in recordings_of_table(f"scp:{self.recordings}", open_audio):
            wanted = {key: part for key, part in parts.get(recording, {recording: None}).items() if key in chosen}
            if not wanted:
                continue
            try:
                if isinstance(source, Nnet3Error):
                    raise source
                samples = _samples(source)
            except Nnet3Error as error:
                say(f"warning: {recording}: {error}; left out")
                unread += len(wanted)
                continue
            for key, part in wanted.items():
                yield Spoken(key, _cut(samples, source.rate, part), source.rate, self.transcripts[key])
        if unread:
            say(f"warning: {unread} of {len(chosen)} utterances could not be read and are left out")

    @cached_property
    def _parts(self) -> dict[str, dict[str, Seconds]]:
        """The utterances of each recording, and where each begins and ends. Empty without segments."""
        return read_segments(self.segments) if self.segments else {}


def _samples(recording: AudioSource) -> npt.NDArray[np.float32]:
    """Returns all samples, (n,); channels are averaged."""
    reader = PcmReader(recording.channels)
    return np.concatenate([reader.read(part) for part in recording.pieces(_PIECE_SECONDS)])


def _cut(samples: npt.NDArray[np.float32], rate: float, part: Seconds | None) -> npt.NDArray[np.float32]:
    return samples if part is None else samples[rows_between(part, rate, len(samples))]
