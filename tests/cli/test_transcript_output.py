"""Transcripts as files and on standard output: JSON is one document, and no recording is lost."""

from __future__ import annotations

import errno
import io
import json
import os
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.asr.small_recognizer import audio, write_recognizer
from tests.cli.run_command import Cli

AUDIO, SILENCE = audio(1.0), np.zeros(100, "<i2")  # too short for a word


def wav_bytes(samples: np.ndarray) -> bytes:
    contents = io.BytesIO()
    with wave.open(contents, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return contents.getvalue()


@pytest.fixture
def folder(cli: Cli, tmp_path: Path) -> Path:
    """A model, and recordings a, b (bytes that are no recording), c (silence)."""
    write_recognizer(tmp_path / "model")
    (tmp_path / "a.wav").write_bytes(wav_bytes(AUDIO))
    (tmp_path / "b.wav").write_bytes(b"no recording")
    (tmp_path / "c.wav").write_bytes(wav_bytes(SILENCE))
    return tmp_path


def of_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("recordings", [["a.wav"], ["a.wav", "b.wav", "c.wav", "a.wav"], ["c.wav"], ["c.wav", "c.wav"]])
@pytest.mark.parametrize("alternatives", [0, 2])
def test_json_is_one_document_and_lines_have_the_same_results(
    cli: Cli, folder: Path, recordings: list[str], alternatives: int
) -> None:
    """Each recording that can be read has a result, silence too."""
    options = [f"--alternatives={alternatives}", "model", *recordings]
    document = json.loads(cli.good("transcribe", "--json", *options).out)
    assert list(document) == ["results"]
    assert document["results"] == of_lines(cli.good("transcribe", "--json-lines", *options).out)
    keys = [name.removesuffix(".wav") for name in recordings if name != "b.wav"]
    if len(recordings) > 1:
        assert [result["recording"] for result in document["results"]] == keys
    for key, result in zip(keys, document["results"], strict=True):
        text = (result["alternatives"][0] if alternatives else result)["text"]
        assert (text == "") == (key == "c")


def test_json_in_a_folder(cli: Cli, folder: Path) -> None:
    """Each file is a document of its own."""
    recordings = ["a.wav", "b.wav", "c.wav"]
    for kind in ("--json", "--json-lines"):
        assert cli.good("transcribe", kind, "--output-dir=out", "model", *recordings).out == ""
    documents = {path.name: json.loads(path.read_text())["results"] for path in (folder / "out").glob("*.json")}
    lines = {path.stem + ".json": of_lines(path.read_text()) for path in (folder / "out").glob("*.jsonl")}
    assert documents == lines
    assert list(documents["c.json"][0].values()) == [""]
    assert documents["a.json"][0]["text"]


def test_nothing_is_said_of_recordings_that_cannot_be_read(cli: Cli, folder: Path) -> None:
    outcome = cli("transcribe", "--json", "model", "b.wav", "none.wav")
    assert (outcome.status, outcome.out) == (1, "")


def test_a_transcript_that_cannot_be_written_ends_with_status_1(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where others could be: on a disk that is full, and where a folder has its name."""
    (folder / "out/a.txt").mkdir(parents=True)
    outcome = cli("transcribe", "--output-dir=out", "model", "c.wav", "a.wav", "c.wav")
    assert (outcome.status, outcome.err.count("warning")) == (1, 0)
    assert outcome.err.endswith("out/a.txt: cannot write this file: Is a directory\n")
    (folder / "full").mkdir()

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("nnet3.base.kaldi_io.files.os.fsync", fail)
    outcome = cli("transcribe", "--output-dir=full", "model", "a.wav", "c.wav")
    assert outcome.status == 1
    assert outcome.err.endswith("full/a.txt: cannot write this file: No space left on device\n")
    assert list((folder / "full").iterdir()) == []


@pytest.mark.parametrize("name", ["good.txt", "scp:list.scp", "scp:good.txt", "ark:good.txt", "./good.txt"])
def test_a_transcript_takes_the_place_of_no_recording(cli: Cli, folder: Path, name: str) -> None:
    """Whether it is named, or named in a table; nor that of a table."""
    entry = "good a.wav\n" if name == "scp:good.txt" else "good " if name == "ark:good.txt" else ""
    contents = entry.encode() + (b"" if name == "scp:good.txt" else wav_bytes(AUDIO))
    (folder / "good.txt").write_bytes(contents)
    (folder / "list.scp").write_text("good good.txt\n")
    outcome = cli("transcribe", "--output-dir=.", "model", name)
    assert outcome.status == 1
    assert outcome.err.endswith("good.txt is a recording or a table of them: give another --output-dir\n")
    assert (folder / "good.txt").read_bytes() == contents


def test_a_transcript_takes_the_place_of_an_older_one(cli: Cli, folder: Path) -> None:
    (folder / "a.txt").write_text("old")
    cli.good("transcribe", "--output-dir=.", "model", "a.wav")
    assert (folder / "a.txt").read_text() not in ("old", "")
