"""Recordings: audio in files and pipes; WAV is streamed, other formats are read whole."""

from __future__ import annotations

from nnet3.errors import ModelFormatError
from nnet3.speech.features.audio_source import NO_SAMPLE, AudioSource, BytesInOrder
from nnet3.speech.features.other_audio import open_other_audio
from nnet3.speech.features.wav_file import read_wav


def open_raw(file: BytesInOrder, source: str, rate: int, channels: int) -> AudioSource:
    """Reads 16-bit little-endian samples without a header."""
    return AudioSource(source, rate, channels, "<i2", lambda frames: file.read(2 * channels * frames), None)


def open_audio(file: BytesInOrder, source: str) -> AudioSource:
    """Reads WAV, or any format that soundfile or ffmpeg knows. Raises ModelFormatError."""
    begun = _Remembering(file)
    opened = read_wav(begun, source)
    if opened is not None:
        begun.forget()
        return opened
    contents = begun.whole()
    if not contents:
        raise ModelFormatError(NO_SAMPLE, source)
    return open_other_audio(contents, source)


class _Remembering:
    """A file that cannot seek; its beginning is kept until its format is known."""

    def __init__(self, file: BytesInOrder):
        self._file = file
        self._begin: list[bytes] | None = []

    def read(self, count: int = -1, /) -> bytes:
        contents = self._file.read(count)
        if self._begin is not None:
            self._begin.append(contents)
        return contents

    def forget(self) -> None:
        self._begin = None

    def whole(self) -> bytes:
        """Returns all bytes from the beginning on."""
        return b"".join([*(self._begin or []), self._file.read()])
