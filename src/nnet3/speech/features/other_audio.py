"""Recordings in formats other than WAV: by the package soundfile, or by the program ffmpeg."""

from __future__ import annotations

import contextlib
import importlib
import io
import shutil
import subprocess
import tempfile
from typing import Any, BinaryIO, cast

import numpy as np

from nnet3.base.kaldi_io.streams import InputStream
from nnet3.errors import ModelFormatError, TableError
from nnet3.speech.features.audio_source import AudioSource
from nnet3.speech.features.wav_file import read_wav

_MOST_FRAMES = 1 << 62  # a format that does not know its length says more
#: Formats that soundfile does not read: where the bytes stand by which they are known, and these.
_OTHERS = {
    (4, b"ftyp"): "an MP4 or M4A file",
    (0, b"\x1a\x45\xdf\xa3"): "a WebM or Matroska file",
    (0, b"\xff\xf1"): "an AAC file",
    (0, b"\xff\xf9"): "an AAC file",
    (0, b"\x30\x26\xb2\x75"): "a WMA file",
    (0, b"#!AMR"): "an AMR file",
}
_NAME = "ffmpeg"
# It reads no other file, and nothing from a network; of the first track of sound it makes WAV.
_ARGUMENTS = (
    *("-nostdin", "-loglevel", "error", "-protocol_whitelist", "file", "-i", "file:/dev/stdin"),
    *("-map", "0:a:0", "-c:a", "pcm_s16le", "-f", "wav", "pipe:1"),
)


def open_other_audio(contents: bytes, source: str) -> AudioSource:
    """Reads any format known to soundfile or ffmpeg. Raises ModelFormatError with the package or program needed."""
    kind = next((kind for (at, begin), kind in _OTHERS.items() if contents.startswith(begin, at)), None)
    reason = f"this is {kind}, which takes the program {_NAME}"
    if kind is None:
        soundfile = _soundfile()
        if soundfile is None:
            reason = f"this is no WAV file of integers: other formats take `pip install soundfile` or {_NAME}"
        else:
            try:
                return _of_soundfile(soundfile, contents, source)
            except (RuntimeError, TypeError, ValueError) as error:
                reason = f"soundfile cannot read this: {_words_of(error)}; {_NAME} reads more formats"
    program = shutil.which(_NAME)
    if program is None:
        raise ModelFormatError(f"{reason} (https://ffmpeg.org), which is not there: give a WAV file", source)
    return _of_ffmpeg(program, contents, source)


def _soundfile() -> Any:
    try:
        return importlib.import_module("soundfile")
    except (ImportError, OSError):  # the package, or the library that it loads
        return None


def _words_of(error: Exception) -> str:
    """Returns the words of an error of libsndfile, without those about our buffer."""
    return str(getattr(error, "error_string", error)).rstrip(".")


def _of_soundfile(soundfile: Any, contents: bytes, source: str) -> AudioSource:
    file = soundfile.SoundFile(io.BytesIO(contents))
    file.seekable = lambda: False  # else it seeks behind each piece, which MP3 does not survive unharmed

    def read(frames: int) -> bytes:
        try:
            samples = file.read(frames, dtype="float32", always_2d=True)
        except (RuntimeError, ValueError) as error:
            raise ModelFormatError(f"soundfile cannot read on: {_words_of(error)}", source) from None
        return (np.asarray(samples, "<f4") * 32768).tobytes()

    said = file.frames if file.frames < _MOST_FRAMES else None
    return AudioSource(source, int(file.samplerate), file.channels, "<f4", read, said, file.close)


class _Ffmpeg:
    """The sound of a file as a WAV file, as ffmpeg makes it."""

    def __init__(self, program: str, contents: bytes, source: str):
        self._source = source
        with contextlib.ExitStack() as opened, tempfile.TemporaryFile() as given:
            self._errors = opened.enter_context(tempfile.TemporaryFile())
            given.write(contents)  # not a pipe: the index of an MP4 file can stand at its end
            given.seek(0)
            command = [program, *_ARGUMENTS]
            process = subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0)
            opened.pop_all()
        self._stream: InputStream | None = InputStream(cast(BinaryIO, process.stdout), process)

    def read(self, count: int = -1, /) -> bytes:
        if self._stream is None:
            return b""
        contents = self._stream.exactly(count)
        if count < 0 or len(contents) < count:
            try:
                self._stream.finish()
            except TableError as error:
                reason = self._last_line() or error
                raise ModelFormatError(f"{_NAME} cannot read this: {reason}", self._source) from None
            finally:
                self.close()
        return contents

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._errors.close()
            self._stream = None

    def _last_line(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _of_ffmpeg(program: str, contents: bytes, source: str) -> AudioSource:
    try:
        made = _Ffmpeg(program, contents, source)
    except OSError as error:
        raise ModelFormatError(f"{_NAME} cannot be run: {error.strerror}", source) from None
    opened = read_wav(made, source, made.close)
    if opened is None:
        made.close()
        raise ModelFormatError(f"{_NAME} finds no sound in this", source)
    return opened
