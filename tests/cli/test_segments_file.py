"""Files `segments`: parts of recordings."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from nnet3.cli.segments_file import parts_of, read_segments, rows_between
from nnet3.errors import Nnet3Error, TableError
from nnet3.speech.features.audio_source import AudioSource


def source(name: str, samples: np.ndarray, rate: int = 10) -> AudioSource:
    contents = iter([samples.tobytes(), b""])
    return AudioSource(name, rate, samples.shape[1], samples.dtype.str, lambda frames: next(contents), None)


def test_parts(tmp_path: Path) -> None:
    (tmp_path / "segments").write_text("a talk 0 0.5\nb talk 0.3 -1\nc other 0.04 0.06\n")
    found = read_segments(str(tmp_path / "segments"))
    assert found == {"talk": {"a": (0, 0.5), "b": (0.3, math.inf)}, "other": {"c": (0.04, 0.06)}}
    samples = np.arange(20, dtype="<i2").reshape(10, 2)
    broken = TableError("broken")
    given = [("talk", source("talk.wav", samples)), ("none", source("none.wav", samples)), ("other", broken)]
    parts = list(parts_of(iter(given), found))
    assert [key for key, _ in parts] == ["a", "b", "other"]
    for (_, part), rows in zip(parts[:2], (samples[:5], samples[3:]), strict=True):
        assert isinstance(part, AudioSource)
        assert (part.source, part.rate, part.channels, part.said) == ("talk.wav", 10, 2, len(rows))
        np.testing.assert_array_equal(np.concatenate(list(part.pieces(0.2))), rows)
    assert parts[2][1] is broken


def test_a_recording_that_cannot_be_read_has_no_parts() -> None:
    (part,) = parts_of(
        iter([("talk", source("talk.wav", np.zeros((0, 1), "<i2")))]), {"talk": {"a": (0, 1), "b": (1, 2)}}
    )
    assert isinstance(part[1], Nnet3Error)


def test_rows() -> None:
    assert rows_between((0.26, math.inf), 10, 8) == slice(3, 8)
    assert rows_between((5, 6), 10, 8) == slice(8, 8)


@pytest.mark.parametrize(
    "line", ["a", "a talk", "a talk 0", "a talk 1 1", "a talk -1 2", "a talk x 2", "a talk 0 1 2", "a talk nan 1"]
)
def test_lines_that_are_none(tmp_path: Path, line: str) -> None:
    (tmp_path / "segments").write_text(f"good talk 0 1\n{line}\n")
    with pytest.raises(Nnet3Error, match="expected KEY RECORDING BEGIN END, in seconds, got"):
        read_segments(str(tmp_path / "segments"))


def test_a_key_comes_once(tmp_path: Path) -> None:
    (tmp_path / "segments").write_text("a talk 0 1\na talk 1 2\n")
    with pytest.raises(Nnet3Error, match="'a' is there twice"):
        read_segments(str(tmp_path / "segments"))
