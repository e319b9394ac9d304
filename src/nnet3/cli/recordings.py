"""Recordings that command lines name: files, pipes, tables of either, archives of WAV."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.script import ScriptEntry, read_script
from nnet3.base.kaldi_io.specifiers import FileName, is_table, parse_rspecifier, parse_rxfilename
from nnet3.base.kaldi_io.streams import InputStream, open_input
from nnet3.base.kaldi_io.tables import TableReader
from nnet3.errors import Nnet3Error, TableError
from nnet3.speech.features.audio_file import open_audio
from nnet3.speech.features.audio_source import AudioSource, BytesInOrder

OpenRecording = Callable[[BytesInOrder, str], AudioSource]
Recordings = Iterator[tuple[str, AudioSource | Nnet3Error]]
SCRIPT_OF_FOLDER = "wav.scp"
_RIFF, _RIFF_HEADER, _LARGEST = b"RIFF", 8, 0x7FFF0000
_PIECE_SECONDS = 60.0
_MOST_AT_ONCE = 1 << 28  # bytes of a pipe in a format that is read whole


def sources_of(name: str, opened: OpenRecording) -> Iterator[Callable[[], Recordings]]:
    """Yields sources to read side by side; a call of a source returns its recordings.

    Each file of a folder and each entry of a script is a source; an archive is one source. A folder with a file
    wav.scp stands for this script.
    """
    if Path(name).is_dir():
        files = [file for file in sorted(Path(name).iterdir()) if file.is_file() and not file.name.startswith(".")]
        script = next((str(file) for file in files if file.name == SCRIPT_OF_FOLDER), None)
        if script is not None:
            yield from sources_of(f"scp:{script}", opened)
        elif files:
            yield from (partial(recordings_of, str(file), opened) for file in files)
        else:
            yield lambda: iter([(name, TableError(f"{name}: there is no file in this folder"))])
        return
    try:
        script = parse_rspecifier(name).script if is_table(name) else None
        if script is not None:
            yield from (partial(_recordings_of_entry, entry, opened) for entry in read_script(script))
            return
    except Nnet3Error as error:
        refused = error
        yield lambda: iter([(name, refused)])
        return
    yield partial(recordings_of, name, opened)


def recordings_of(name: str, opened: OpenRecording) -> Recordings:
    """Yields a table's recordings or a file's recording, or errors in their place. A pipe is read later."""
    key = "stdin" if name == "-" else Path(name).stem
    try:
        if is_table(name):
            yield from recordings_of_table(name, opened)
            return
        with _opened_source(parse_rxfilename(name), name, opened) as recording:
            yield key, recording
    except Nnet3Error as error:
        yield name, error


def recordings_of_table(name: str, opened: OpenRecording) -> Recordings:
    """Yields the recordings of a table, or errors in their place. Files and pipes of a script may be of any kind that
    `opened` reads; an archive has WAV files in a row. Raises Nnet3Error for a missing table.
    """
    script = parse_rspecifier(name).script

    def read(reader: Reader) -> AudioSource:
        begin = reader.position
        reader.position = end = begin + _wave_size(reader)
        return opened(io.BytesIO(memoryview(reader.data)[begin:end]), reader.source)

    if script is not None:
        for line in read_script(script):
            yield from _recordings_of_entry(line, opened)
        return
    with TableReader(name, read, header=False) as table:
        while True:
            try:
                entry = next(table, None)
            except Nnet3Error as error:
                yield name, error
                continue
            if entry is None:
                return
            with contextlib.closing(entry[1]):
                yield entry


def _recordings_of_entry(entry: ScriptEntry, opened: OpenRecording) -> Recordings:
    try:
        if entry.range:
            raise TableError(f"the range {entry.range} is given, but only matrices have ranges")
        with _opened_source(parse_rxfilename(entry.name), entry.name, opened) as recording:
            yield entry.key, recording
    except Nnet3Error as error:
        yield entry.key, TableError(f"the entry '{entry.key}': {error}")


class RecordingsByKey:
    """The samples of recordings of a table, by key, in any order. Raises Nnet3Error for a missing table.

    The recording last taken from a script is kept; an archive is read as far as a key needs, and all of it is kept.
    """

    def __init__(self, name: str):
        script = parse_rspecifier(name).script
        self._names = {} if script is None else {entry.key: entry.name for entry in read_script(script)}
        self._archive = None if script is not None else recordings_of_table(name, open_audio)
        self._held: dict[str, tuple[npt.NDArray[np.generic], int]] = {}

    def get(self, key: str) -> tuple[npt.NDArray[np.generic], int] | None:
        """Returns samples (frames, channels) and their rate, or None for an unknown key.

        Raises Nnet3Error for a recording that cannot be read.
        """
        if key not in self._held and key in self._names:
            name = self._names[key]
            with _opened_source(parse_rxfilename(name), name, open_audio) as recording:
                self._held = {key: _samples_of(recording)}
        while key not in self._held and self._archive is not None:
            found = next(self._archive, None)
            if found is None:
                self._archive = None
            elif isinstance(found[1], Nnet3Error):
                raise found[1]
            else:
                self._held[found[0]] = _samples_of(found[1])
        return self._held.get(key)


def _samples_of(recording: AudioSource) -> tuple[npt.NDArray[np.generic], int]:
    return np.concatenate(list(recording.pieces(_PIECE_SECONDS))), recording.rate


@contextlib.contextmanager
def _opened_source(file: FileName, name: str, opened: OpenRecording) -> Iterator[AudioSource]:
    source = open_input(file)
    with contextlib.ExitStack() as closed_at_end:
        if isinstance(source, InputStream):
            contents: BytesInOrder = _Pipe(closed_at_end.enter_context(contextlib.closing(source)))
        else:
            contents = io.BytesIO(memoryview(source)[file.offset :])
        yield closed_at_end.enter_context(contextlib.closing(opened(contents, name)))


def _wave_size(reader: Reader) -> int:
    """Returns the bytes of the complete WAV file that begins here. ModelFormatError without a WAV file."""
    reader.need(_RIFF_HEADER, "the header of a WAV file")
    header = bytes(reader.data[reader.position : reader.position + _RIFF_HEADER])
    size = int.from_bytes(header[4:], "little")
    if header[:4] != _RIFF or size >= _LARGEST:
        raise reader.error("expected a WAV file that says its size: an archive can have no other recordings")
    reader.need(_RIFF_HEADER + size, "a WAV file")
    return _RIFF_HEADER + size


class _Pipe:
    """The bytes of a pipe in order. Its end is an error where a command wrote it and failed."""

    def __init__(self, stream: InputStream):
        self._stream: InputStream | None = stream

    def read(self, count: int = -1, /) -> bytes:
        if self._stream is None:
            return b""
        contents = self._stream.exactly(count if count >= 0 else _MOST_AT_ONCE + 1)
        if count < 0 and len(contents) > _MOST_AT_ONCE:
            raise TableError(f"this is no WAV file, and more than {_MOST_AT_ONCE} bytes: give a file instead of a pipe")
        if count < 0 or len(contents) < count:
            self._stream.finish()
            self._stream = None
        return contents
