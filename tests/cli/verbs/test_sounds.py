"""Verbs of recordings and pitch, on WAV files."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from nnet3.kaldi_io import open_matrix_table
from tests.cli.run_command import Cli


@pytest.fixture
def voices(cli: Cli) -> dict[str, np.ndarray]:
    """Two voices of 8 kHz and a recording that is too short, in wav.scp."""
    times = np.arange(8000) / 8000
    found = {
        name: np.round(3000 * np.sin(2 * np.pi * pitch * times) + 2000 * np.sin(4 * np.pi * pitch * times))
        for name, pitch in (("low", 110), ("high", 220))
    }
    found["short"] = found["low"][:100]
    for name, samples in found.items():
        with wave.open(f"{name}.wav", "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(samples.astype("<i2").tobytes())
    Path("wav.scp").write_text("".join(f"{name} {name}.wav\n" for name in found))
    return found


def _rows(name: str) -> dict[str, np.ndarray]:
    with open_matrix_table(f"ark:{name}") as table:
        return dict(table)


def test_pitches_and_their_features(cli: Cli, voices: dict[str, np.ndarray]) -> None:
    outcome = cli.good("compute-kaldi-pitch-feats", "--sample-frequency=8000", "scp:wav.scp", "ark:pitch.ark")
    assert "short: it is too short for a frame; left out" in outcome.err
    assert "Done 2 out of 3 utterances." in outcome.err
    pitches = _rows("pitch.ark")
    assert {key: rows.shape for key, rows in pitches.items()} == {"low": (98, 2), "high": (98, 2)}
    for name, pitch in (("low", 110), ("high", 220)):
        assert np.allclose(pitches[name][:, 1], pitch, rtol=0.01)
        assert pitches[name][:90, 0].min() > 0.95
    cli.good("process-kaldi-pitch-feats", "--srand=1", "ark:pitch.ark", "ark:features.ark")
    options = ("--sample-frequency=8000", "scp:wav.scp")
    cli.good("compute-and-process-kaldi-pitch-feats", *options, "ark:both.ark")
    features, both = _rows("features.ark"), _rows("both.ark")
    for key, rows in both.items():
        assert rows.shape == (98, 3)
        assert np.abs(rows - features[key]).max() < 1e-6
    online = ("--frames-per-chunk=10", "--simulate-first-pass-online=true", "--normalization-right-context=5")
    cli.good("compute-and-process-kaldi-pitch-feats", *online, *options, "ark:online.ark")
    assert all(np.abs(rows - both[key])[:, 0].max() < 0.05 for key, rows in _rows("online.ark").items())
    cli.good("compute-kaldi-pitch-feats", *online[:2], *options, "ark:first.ark")
    assert all(np.allclose(rows, pitches[key], rtol=0.02, atol=0.02) for key, rows in _rows("first.ark").items())


def test_recordings_of_another_rate_are_left_out(cli: Cli, voices: dict[str, np.ndarray]) -> None:
    outcome = cli("compute-kaldi-pitch-feats", "scp:wav.scp", "ark:pitch.ark")
    assert (outcome.status, "it has 8000 Hz, --sample-frequency says 16000" in outcome.err) == (1, True)
    outcome = cli("process-kaldi-pitch-feats", "ark:none.ark", "ark:out.ark")
    assert (outcome.status, Path("out.ark").exists()) == (1, False)
    for option, message in (("--min-f0=500", "--min-f0 must be below --max-f0"), ("--delta-pitch=0", "must be")):
        outcome = cli("compute-kaldi-pitch-feats", option, "scp:wav.scp", "ark:pitch.ark")
        assert outcome.status in (1, 2)
        assert message in outcome.err


def test_recordings_are_copied(cli: Cli, voices: dict[str, np.ndarray]) -> None:
    cli.good("wav-copy", "scp:wav.scp", "ark,scp:wav.ark,copied.scp")
    cli.good("wav-copy", "low.wav", "copied.wav")
    assert Path("copied.wav").read_bytes() == Path("low.wav").read_bytes()
    assert Path("wav.ark").read_bytes().startswith(b"low RIFF")
    for table in ("ark:wav.ark", "scp:copied.scp", "scp:wav.scp"):
        assert cli.good("wav-to-duration", table, "ark,t:-").out == "low 1 \nhigh 1 \nshort 0.0125 \n"
    samples = np.stack([voices["low"], voices["high"]], axis=1).astype("<i2")
    with wave.open("two.wav", "wb") as file:
        file.setparams((2, 2, 8000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    cli.good("wav-copy", "two.wav", "two_copied.wav")
    assert Path("two_copied.wav").read_bytes() == Path("two.wav").read_bytes()


def test_recordings_that_cannot_be_copied(cli: Cli, voices: dict[str, np.ndarray]) -> None:
    assert "give two tables or two files" in cli("wav-copy", "scp:wav.scp", "out.wav").err
    Path("cut.wav").write_bytes(Path("low.wav").read_bytes()[:4000])
    Path("wav.scp").write_text("gone gone.wav\ncut cut.wav\n")
    outcome = cli.good("wav-to-duration", "--read-entire-file=true", "scp:wav.scp", "ark,t:-")
    assert outcome.out == "cut 0.24725 \n"
    assert "gone.wav" in outcome.err
    outcome = cli("wav-copy", "gone.wav", "out.wav")
    assert (outcome.status, Path("out.wav").exists()) == (1, False)
    Path("wav.scp").write_text("")
    assert cli("wav-copy", "scp:wav.scp", "ark:out.ark").status == 1
