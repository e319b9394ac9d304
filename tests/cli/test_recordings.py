"""Recordings that command lines name, one after the other: tables whose entries are of several kinds."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import pytest

from nnet3.cli.recordings import recordings_of
from nnet3.errors import Nnet3Error
from nnet3.speech.features.audio_source import BytesInOrder


def _wav(samples: bytes) -> bytes:
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(samples)
    return written.getvalue()


class _Contents:
    """Reads in two pieces, as what hears a recording while it comes."""

    closed = 0  # of them all

    def __init__(self, source: BytesInOrder, name: str):
        self.bytes = source.read(3) + source.read()

    def close(self) -> None:
        _Contents.closed += 1


def _heard(name: str) -> list[tuple[str, bytes | str]]:
    before = _Contents.closed
    found = recordings_of(name, _Contents)  # type: ignore[arg-type]
    heard = [(key, str(each) if isinstance(each, Nnet3Error) else each.bytes) for key, each in found]  # type: ignore[attr-defined]
    assert _Contents.closed - before == sum(isinstance(each, bytes) for _, each in heard)
    return heard


def test_a_table_goes_on_after_entries_that_cannot_be_read(tmp_path: Path) -> None:
    raw = bytes(5) + bytes(range(1, 12))
    (tmp_path / "a.raw").write_bytes(raw)
    script = tmp_path / "wav.scp"
    entries = {
        "file": f"{tmp_path}/a.raw",
        "pipe": f"cat {tmp_path}/a.raw |",
        "missing": f"{tmp_path}/none.raw",
        "fails": f"cat {tmp_path}/a.raw; false |",
        "later": f"{tmp_path}/a.raw:5",
        "part": f"{tmp_path}/a.raw[0:3]",
        "last": f"{tmp_path}/a.raw",
    }
    script.write_text("".join(f"{key} {name}\n" for key, name in entries.items()))
    heard = _heard(f"scp:{script}")
    assert [key for key, _ in heard] == list(entries)
    found = dict(heard)
    assert found["file"] == found["pipe"] == found["last"] == raw
    assert found["later"] == raw[5:]
    for key, words in {"missing": "none.raw", "fails": "status 1", "part": "only matrices have ranges"}.items():
        said = found[key]
        assert isinstance(said, str)
        assert f"'{key}'" in said
        assert words in said


def test_a_pipe_without_end_is_no_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3.cli.recordings._MOST_AT_ONCE", 1 << 20)
    (tmp_path / "a.raw").write_bytes(b"12345678")
    (tmp_path / "wav.scp").write_text(f"endless yes |\nlast {tmp_path}/a.raw\n")
    endless, last = _heard(f"scp:{tmp_path}/wav.scp")
    assert "the entry 'endless': this is no WAV file, and more than 1048576 bytes" in str(endless[1])
    assert last == ("last", b"12345678")


def test_an_archive_has_whole_wav_files(tmp_path: Path) -> None:
    first, second = _wav(b"\1\2\3\4"), _wav(bytes(10))
    archive = tmp_path / "wav.ark"
    archive.write_bytes(b"a " + first + b"b " + second)
    assert _heard(f"ark:{archive}") == [("a", first), ("b", second)]
    archive.write_bytes(b"a " + first + b"b " + second[:-1])
    heard, *cut = _heard(f"ark:{archive}")
    assert heard == ("a", first)
    assert "a WAV file" in str(cut[0])


def test_a_table_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    for kind in ("scp", "ark"):
        ((_, said),) = _heard(f"{kind}:{tmp_path}/none")
        assert f"{tmp_path}/none" in str(said)


@pytest.mark.parametrize(("name", "key"), [("{}/one.raw", "one"), ("cat {}/one.raw |", "one")])
def test_a_single_recording_has_the_name_of_its_file(name: str, key: str, tmp_path: Path) -> None:
    (tmp_path / "one.raw").write_bytes(b"12345678")
    ((found, contents),) = _heard(name.format(tmp_path))
    assert contents == b"12345678"
    assert found.startswith(key)
