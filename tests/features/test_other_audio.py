"""Formats other than WAV: by soundfile, by a program called ffmpeg, and what is said where neither reads them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.speech.features.other_audio import open_other_audio
from tests.seeds import RANDOM

RATE = 16000
STEREO = RANDOM.integers(-(1 << 15), 1 << 15, (4001, 2)).astype("<i2")
M4A = b"\0\0\0\x18ftypM4A "
# Of what ffmpeg writes into a pipe: it does not say how long it is.
WAV = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\1\0\2\0\x80\x3e\0\0\0\xfa\0\0\4\0\x10\0data\xff\xff\xff\xff"
_REST = f"tail -c +{len(M4A) + 1} /dev/stdin"  # prints what comes behind these
Program = Callable[[str], Path]


@pytest.fixture
def ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Writes a program of this name, a shell script; without it there is none."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr(
        "nnet3.speech.features.other_audio.shutil.which", lambda name: next(map(str, folder.glob(name)), None)
    )

    def write(script: str) -> Path:
        (folder / "ffmpeg").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "ffmpeg").chmod(0o755)
        return folder

    return write


def samples(contents: bytes) -> np.ndarray:
    recording = open_other_audio(contents, "a.m4a")
    assert (recording.rate, recording.channels) == (RATE, 2)
    heard = np.concatenate(list(recording.pieces(0.01)))
    recording.close()
    return heard


def test_ffmpeg_makes_wav_of_a_file_in_which_it_can_seek(ffmpeg: Program) -> None:
    ffmpeg(f'test -f /dev/stdin || exit 1; printf %s "$*" >&2; {_REST}')
    assert np.array_equal(samples(M4A + WAV + STEREO.tobytes()), STEREO)


def test_ffmpeg_can_open_nothing_else(ffmpeg: Program) -> None:
    """Playlists name other files and addresses: it is given neither protocols of networks nor a terminal."""
    folder = ffmpeg('for each in "$@"; do printf "%s\\n" "$each"; done > "$0.arguments"; ' + _REST)
    samples(M4A + WAV + bytes(4))
    arguments = (folder / "ffmpeg.arguments").read_text().split("\n")
    assert arguments[arguments.index("-protocol_whitelist") + 1] == "file"
    assert "-nostdin" in arguments


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'moov atom not found' >&2; echo >&2; exit 1", "ffmpeg cannot read this: moov atom not found"),
        ("exit 3", "ffmpeg cannot read this: the command failed with status 3"),
        ("true", "ffmpeg finds no sound in this"),
        ("printf RIFF", "ffmpeg finds no sound in this"),
        (f"{_REST}; echo 'Invalid data' >&2; exit 1", "ffmpeg cannot read this: Invalid data"),
    ],
)
def test_what_ffmpeg_cannot_read(ffmpeg: Program, script: str, message: str) -> None:
    """It may also find that out at the end."""
    ffmpeg(script)
    with pytest.raises(ModelFormatError, match=rf"a\.m4a: {message}$"):
        samples(M4A + WAV + STEREO.tobytes())


def test_a_program_that_cannot_be_run(ffmpeg: Program) -> None:
    (ffmpeg("true") / "ffmpeg").chmod(0o644)
    with pytest.raises(ModelFormatError, match=r"a\.m4a: ffmpeg cannot be run: Permission denied"):
        samples(M4A)


def test_a_program_that_nobody_listens_to_is_ended(ffmpeg: Program) -> None:
    folder = ffmpeg('echo $$ > "$0.pid"; ' + _REST + "; exec sleep 1000")
    recording = open_other_audio(M4A + WAV + STEREO.tobytes(), "a.m4a")
    assert len(next(recording.pieces(0.01))) == RATE // 100
    recording.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "ffmpeg.pid").read_text()), 0)


@pytest.mark.parametrize(
    ("contents", "kind"),
    [
        (M4A, "an MP4 or M4A file"),
        (b"\0\0\0\x20ftypisom", "an MP4 or M4A file"),
        (b"\x1a\x45\xdf\xa3rest", "a WebM or Matroska file"),
        (b"\xff\xf1rest", "an AAC file"),
    ],
)
def test_without_ffmpeg_it_is_named(ffmpeg: Program, contents: bytes, kind: str) -> None:
    with pytest.raises(ModelFormatError, match=rf"a\.m4a: this is {kind}, which takes the program ffmpeg .*not there"):
        open_other_audio(contents, "a.m4a")


def test_without_soundfile_both_are_named(ffmpeg: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(
        ModelFormatError, match=r"no WAV file of integers: .*`pip install soundfile` or ffmpeg .*: give"
    ):
        open_other_audio(b"fLaC", "a.flac")


# ---- with the package itself ----


def written(kind: str) -> bytearray:
    soundfile = pytest.importorskip("soundfile")
    file = io.BytesIO()
    soundfile.write(file, STEREO, RATE, format=kind)
    return bytearray(file.getvalue())


def test_soundfile_reads_other_formats_in_pieces() -> None:
    assert np.array_equal(samples(bytes(written("FLAC"))), STEREO)


def test_pieces_are_those_of_the_whole() -> None:
    """MP3 is not, if one seeks between pieces."""
    contents = bytes(written("MP3"))
    pieces = samples(contents)
    (whole,) = open_other_audio(contents, "a.mp3").pieces(60.0)
    assert len(pieces) == len(whole)
    np.testing.assert_allclose(pieces, whole, atol=0.1)


def test_a_file_that_says_too_much() -> None:
    """2^36 samples would be 256 GB."""
    contents = written("FLAC")
    contents[21] |= 15
    contents[22:26] = b"\xff" * 4
    recording = open_other_audio(bytes(contents), "a.flac")
    assert np.array_equal(np.concatenate(list(recording.pieces(0.2))), STEREO)
    assert recording.notice == f"the file is cut: {len(STEREO)} of {(1 << 36) - 1} samples are there"


def test_a_damaged_file_is_named_without_our_buffers(ffmpeg: Program) -> None:
    for contents in (b"nonsense", bytes(written("FLAC")[:30])):
        with pytest.raises(ModelFormatError, match=r"a\.flac: soundfile cannot read this: ") as caught:
            open_other_audio(contents, "a.flac")
        assert "BytesIO" not in str(caught.value)
