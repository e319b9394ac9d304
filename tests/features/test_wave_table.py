"""Tables of recordings: Kaldi's rules for WAV files, and what is refused."""

from __future__ import annotations

import io
import logging
import struct
from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ModelFormatError, TableError
from nnet3.kaldi_io import Reader, Writer
from nnet3.speech.features.wav_file import read_wav
from nnet3.speech.features.wave_table import (
    WaveData,
    open_wave_table,
    random_access_waves,
    read_wave,
    wave_writer,
    write_wave,
)
from tests.seeds import RANDOM
from tests.shared_data import SHARED

FORMS = SHARED / "rescoring/online/wav_forms"
SAMPLES = RANDOM.integers(-(1 << 15), 1 << 15, (100, 2)).astype(np.int16)
PCM, EXTENSIBLE = 1, 0xFFFE
KEYS = ["one", "two"]
needs_forms = pytest.mark.skipif(not FORMS.is_dir(), reason=f"the golden data of WAV forms are not at {FORMS}")


def chunk(name: bytes, contents: bytes, order: str = "<", size: int | None = None) -> bytes:
    return name + struct.pack(f"{order}I", len(contents) if size is None else size) + contents


def form(order: str = "<", tag: int = PCM, bits: int = 16, **others: int) -> bytes:
    block = others.get("block", 2 * SAMPLES.shape[1])
    numbers = (tag, others.get("channels", SAMPLES.shape[1]), 8000, others.get("speed", 8000 * block), block, bits)
    contents = struct.pack(f"{order}HHIIHH", *numbers)
    if tag == EXTENSIBLE:
        guid = (others.get("inside", PCM), 0x00100000, 0xAA000080, 0x719B3800)
        contents += struct.pack(f"{order}HHI4I", 22, 16, 3, *guid)
    return chunk(b"fmt ", contents, order)


def file(inside: bytes, order: str = "<", said: int | None = None) -> bytes:
    size = 4 + len(inside) if said is None else said
    return {"<": b"RIFF", ">": b"RIFX"}[order] + struct.pack(f"{order}I", size) + b"WAVE" + inside


def data(order: str = "<", size: int | None = None) -> bytes:
    return chunk(b"data", SAMPLES.astype(f"{order}i2").tobytes(), order, size)


def samples(contents: bytes) -> np.ndarray:
    return read_wave(Reader(contents, "a.wav")).samples


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("tag", [PCM, EXTENSIBLE])
def test_all_forms_have_the_samples_of_the_plain_one(order: str, tag: int) -> None:
    odd = chunk(b"LIST", b"odd", order)
    begins = [b"", chunk(b"JUNK", bytes(28), order), odd, odd + chunk(b"x   ", b"yyy", order)]
    contents = [file(begin + form(order, tag) + begin + data(order), order) for begin in begins]
    contents += [file(form(order, tag) + data(order, size), order) for size in (0, 0xFFFFFFFF, 0x7FFFF000)]
    contents += [file(form(order, tag) + data(order), order, said) for said in (0, 0xFFFFFFFF)]
    for each in contents:
        assert np.array_equal(samples(each), SAMPLES)
        opened = read_wav(io.BytesIO(each), "a.wav")
        assert opened is not None
        assert np.array_equal(np.concatenate(list(opened.pieces(1.0))), SAMPLES)


@pytest.mark.parametrize("more", [0, 2, 6])
def test_an_extensible_header_with_a_fact_chunk_is_no_reason_to_warn(
    more: int, caplog: pytest.LogCaptureFixture
) -> None:
    header = form(tag=EXTENSIBLE)[8:] + bytes(more)
    extra = struct.pack("<H", 22 + more)
    fact = chunk(b"fact", struct.pack("<I", len(SAMPLES)))
    assert np.array_equal(samples(file(chunk(b"fmt ", header[:16] + extra + header[18:]) + fact + data())), SAMPLES)
    assert not caplog.records


@pytest.mark.parametrize("order", "<>")
def test_a_padding_byte_is_read_but_not_in_tables(order: str) -> None:
    odd = chunk(b"LIST", b"odd", order) + b"\0"
    for inside in (odd + form(order) + data(order), form(order) + odd + data(order)):
        contents = file(inside, order)
        opened = read_wav(io.BytesIO(contents), "a.wav")
        assert opened is not None
        assert np.array_equal(np.concatenate(list(opened.pieces(1.0))), SAMPLES)
        with pytest.raises(ModelFormatError, match="without padding bytes"):
            samples(contents)


def test_what_follows_the_samples_is_not_read_and_told(caplog: pytest.LogCaptureFixture) -> None:
    reader = Reader(file(form() + data()) + b"next", "a.wav")
    read_wave(reader)
    assert (reader.left, caplog.messages) == (4, [])
    assert np.array_equal(samples(file(form() + data() + chunk(b"LIST", bytes(8)))), SAMPLES)
    assert "chunks behind the samples are not read" in caplog.text


def test_a_cut_file_gives_what_is_there(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert np.array_equal(samples(file(form() + data())[:-203]), SAMPLES[:49])
    assert "197 of 400 bytes of samples are there" in caplog.text


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "expected a WAV file"),
        (b"fLaC" + bytes(50), "expected a WAV file"),
        (file(data()), "expected a WAV file"),
        (file(form())[:30], "expected a WAV file"),
        (file(form(tag=3) + data()), "got format 3"),
        (file(form(tag=EXTENSIBLE, inside=3) + data()), "got format 3"),
        (file(form(bits=8) + data()), "got 8 bits"),
        (file(form(channels=0) + data()), "none of its channels"),
        (file(form(speed=8000) + data()), "8000 bytes a second"),
        (file(form(block=6) + data()), "6 bytes for a sample"),
        (file(form() + chunk(b"data", b"")), "no samples"),
    ],
)
def test_what_kaldi_refuses(contents: bytes, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        samples(contents)


def test_a_table_is_written_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with wave_writer("ark,scp:a.ark,a.scp") as writer:
        for key in KEYS:
            writer.write(key, WaveData(8000, SAMPLES[: len(key) * 20]))
    for name in ("ark:a.ark", "scp:a.scp", "ark:cat a.ark |"):
        with open_wave_table(name) as table:
            assert [(key, wave.rate, len(wave.samples)) for key, wave in table] == [
                ("one", 8000, 60),
                ("two", 8000, 60),
            ]
        with random_access_waves(name) as waves:
            assert np.array_equal(waves["two"].samples, SAMPLES[:60])
    with pytest.raises(ModelFormatError, match="without channels"):
        write_wave(Writer(True), WaveData(8000, SAMPLES[:, :0]))
    (tmp_path / "b.scp").write_text("one a.ark:4\nbad b.scp\n")
    assert "bad" not in random_access_waves("p,scp:b.scp")
    table = random_access_waves("scp:b.scp")
    assert "bad" in table
    with pytest.raises(TableError, match="expected a WAV file"):
        table.get("bad")


@needs_forms
def test_golden_forms() -> None:
    """All ten hold the same sound, one of them cut in the middle; 8 bits are refused."""
    read = {each.stem: Reader.open(each) for each in FORMS.glob("w_*.wav")}
    with pytest.raises(ModelFormatError, match="8 bits"):
        read_wave(read.pop("w_8bit"))
    waves = {name: read_wave(reader).samples for name, reader in read.items()}
    plain, short = waves["w_plain"][:, 0], waves.pop("w_short")[:, 0]
    assert len(waves) == 9
    assert all(np.array_equal(each[:, 0], plain) for each in waves.values())
    assert np.array_equal(short, plain[: len(plain) // 2])
