"""WAV files: plain and extensible headers, chunks before the samples, headers that cannot be."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.speech.features.audio import PcmReader
from nnet3.speech.features.audio_source import AudioSource
from nnet3.speech.features.wav_file import read_wav
from tests.seeds import RANDOM

RATE, PCM, FLOAT, MU_LAW, EXTENSIBLE = 11025, 1, 3, 7, 0xFFFE
WIDE = RANDOM.integers(-(1 << 31), 1 << 31, (1001, 2)).astype("<i4")


def chunk(name: bytes, contents: bytes) -> bytes:
    return name + struct.pack("<I", len(contents)) + contents + bytes(len(contents) % 2)


def wav(contents: bytes, bits: int, channels: int = 1, tag: int = PCM, **others: int) -> bytes:
    """A file whose header is extensible if `tag` is, then with `inside` as the format that it names."""
    block, rate = others.get("block", channels * ((bits + 7) // 8) % (1 << 16)), others.get("rate", RATE)
    header = struct.pack("<HHIIHH", tag, channels, rate, rate * block % (1 << 32), block, bits)
    if tag == EXTENSIBLE:
        header += struct.pack("<HHIH", 22, bits, 0, others.get("inside", PCM))
        header += bytes.fromhex("000000001000800000aa00389b71")
    inside = chunk(b"fmt ", header) + others.get("before", b"") + chunk(b"data", contents)
    return b"RIFF" + struct.pack("<I", 4 + len(inside)) + b"WAVE" + inside + b"LIST of whoever made it"


def opened(contents: bytes) -> AudioSource:
    found = read_wav(io.BytesIO(contents), "a.wav")
    assert found is not None
    return found


def samples(contents: bytes) -> np.ndarray:
    recording = opened(contents)
    assert (recording.rate, recording.channels, recording.notice) == (RATE, 2, "")
    reader = PcmReader(2, 1)
    heard = np.concatenate([reader.read(piece) for piece in recording.pieces(0.01)])
    assert recording.said == len(heard)
    return heard


@pytest.mark.parametrize("tag", [PCM, EXTENSIBLE])
@pytest.mark.parametrize("bits", [8, 16, 24, 32])
def test_an_extensible_header_means_what_it_names(tag: int, bits: int) -> None:
    """As written by ffmpeg and sox for all samples of 24 bits, and for more than two channels."""
    width = bits // 8
    contents = WIDE.view("u1").reshape(len(WIDE), 2, 4)[:, :, 4 - width :].copy()
    if width == 1:
        contents ^= 128  # 8 bits have no sign
    heard = samples(wav(contents.tobytes(), bits, 2, tag))
    assert np.array_equal(heard, ((WIDE[:, 1] >> (32 - bits)) / 2.0 ** (bits - 16)).astype("f4"))


@pytest.mark.parametrize("tag", [PCM, EXTENSIBLE])
def test_chunks_that_come_first_are_passed_over(tag: int) -> None:
    """Also an odd one, and one that is longer than what is read at once."""
    before = chunk(b"LIST", b"odd") + chunk(b"junk", bytes(100_001)) + chunk(b"fact", bytes(4))
    heard = samples(wav(WIDE.tobytes(), 32, 2, tag, before=before))  # type: ignore[arg-type]
    assert np.array_equal(heard, samples(wav(WIDE.tobytes(), 32, 2)))


@pytest.mark.parametrize(
    "contents",
    [
        b"",
        b"RIFX" + wav(bytes(4), 16)[4:],
        wav(bytes(4), 16)[:33],
        wav(bytes(4), 32, tag=FLOAT),
        wav(bytes(4), 8, tag=MU_LAW),
        wav(bytes(4), 32, tag=EXTENSIBLE, inside=FLOAT),
        wav(bytes(4), 16, tag=EXTENSIBLE).replace(bytes.fromhex("aa00389b71"), bytes(5)),
        b"RIFF" + bytes(4) + b"WAVE" + chunk(b"data", bytes(400)),
        b"RIFF" + bytes(4) + b"WAVE" + chunk(b"fmt ", bytes(8)) + chunk(b"data", bytes(400)),
    ],
)
def test_no_wav_file_of_integers(contents: bytes) -> None:
    assert read_wav(io.BytesIO(contents), "a.wav") is None


@pytest.mark.parametrize("tag", [PCM, EXTENSIBLE])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bits": 16, "rate": 0}, "0 Hz, 1 channel"),
        ({"bits": 64}, "1 channel.s. of 64 bits"),
        ({"bits": 0}, "1 channel.s. of 0 bits"),
        ({"bits": 16, "channels": 0}, "0 channel"),
        ({"bits": 24, "block": 4}, "24 bits and 4 bytes"),
    ],
)
def test_headers_that_cannot_be(tag: int, given: dict[str, int], message: str) -> None:
    with pytest.raises(ModelFormatError, match=rf"a\.wav: its header says .*{message}.*: expected a rate above 0"):
        read_wav(io.BytesIO(wav(bytes(400), tag=tag, **given)), "a.wav")


def test_no_header_makes_us_ask_for_more_than_there_can_be() -> None:
    """65535 channels at 4 GHz would be 56 TB in 0.2 s."""
    asked: list[int] = []

    class Pipe(io.BytesIO):
        def read(self, count: int | None = -1, /) -> bytes:
            asked.append(count or 0)
            return super().read(count)

    recording = read_wav(Pipe(wav(bytes(65535), 8, 65535, rate=(1 << 32) - 1)), "a.wav")
    assert recording is not None
    assert [piece.shape for piece in recording.pieces(0.2)] == [(1, 65535)]
    assert max(asked) < 1 << 25
