"""Voice activity, sliding means and segments: what is written, left out and counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.cli.recordings import recordings_of_table
from nnet3.kaldi_io import matrix_writer, open_matrix_table, open_vector_table
from nnet3.options import SlidingCmvnOptions
from nnet3.speech.features.audio_file import open_audio
from nnet3.speech.features.audio_source import AudioSource
from nnet3.speech.features.sliding_cmvn import normalised_by_window
from tests.cli.run_command import Cli
from tests.speaker.made_voices import wav_bytes

LOUD, QUIET = np.repeat([[20.0, 1.0], [0.0, 2.0]], 4, axis=0).astype(np.float32), np.zeros((3, 2), np.float32)


@pytest.fixture
def features(cli: Cli) -> Cli:
    with matrix_writer("ark:feats.ark") as writer:
        for key, rows in {"a": LOUD, "none": np.zeros((0, 0)), "quiet": QUIET}.items():
            writer.write(key, rows)
    return cli


def test_voice_activity_selects_frames(features: Cli) -> None:
    Path("vad.conf").write_text("--vad-energy-threshold=5.5\n")
    outcome = features.good("compute-vad", "--config=vad.conf", "ark:feats.ark", "ark:vad.ark")
    assert "utterance 'none' left out: it has no frames" in outcome.err
    assert "processed 1 utterances successfully; 1 were left out, and 1 were completely unvoiced" in outcome.err
    assert "warning: utterance 'quiet' has no frame with a voice" in outcome.err
    assert "Proportion of voiced frames was 0.363636 over 11 frames" in outcome.err
    voiced = {key: vector.tolist() for key, vector in open_vector_table("ark:vad.ark")}
    assert voiced == {"a": [1.0] * 4 + [0.0] * 4, "quiet": [0.0] * 3}
    outcome = features.good("select-voiced-frames", "ark:feats.ark", "ark:vad.ark", "ark:out.ark")
    assert "utterance 'quiet' left out: no frame of it has a voice" in outcome.err
    (found,) = open_matrix_table("ark:out.ark")
    np.testing.assert_array_equal(found[1], LOUD[:4])
    features.good("compute-vad", "--omit-unvoiced-utts=true", "ark:feats.ark", "ark:vad.ark")
    assert [key for key, _ in open_vector_table("ark:vad.ark")] == ["a"]
    outcome = features.good("select-voiced-frames", "ark:feats.ark", "ark:vad.ark", "ark:out.ark")
    assert "ark:vad.ark has no voice activity for it" in outcome.err
    assert features("compute-vad", "--vad-energy-threshold=50", "ark:feats.ark", "ark:vad.ark").status == 1


def test_sliding_means(features: Cli) -> None:
    options = ["--norm-vars=true", "--center=true", "--cmn-window=3"]
    outcome = features.good("apply-cmvn-sliding", *options, "ark:feats.ark", "ark:out.ark")
    assert "utterance 'quiet': 6 variances are nearly 0 and were floored" in outcome.err
    found = dict(open_matrix_table("ark:out.ark"))
    expected = SlidingCmvnOptions(3, center=True, norm_vars=True)
    for key, rows in (("a", LOUD), ("quiet", QUIET)):
        np.testing.assert_array_equal(found[key], normalised_by_window(rows, expected)[0])
    outcome = features.good("apply-cmvn-sliding", *options, "--max-warnings=0", "ark:feats.ark", "ark:out.ark")
    assert "floored" not in outcome.err


def _wave(name: str, samples: np.ndarray, rate: int = 1000) -> None:
    Path(name).write_bytes(wav_bytes(samples.astype(np.float32), rate))


def _segments(table: str = "ark:out.ark") -> dict[str, np.ndarray]:
    found = {}
    for key, recording in recordings_of_table(table, open_audio):
        assert isinstance(recording, AudioSource)
        assert recording.rate == 1000
        found[key] = np.concatenate(list(recording.pieces(10.0)))[:, 0]
    return found


def test_segments_are_cut_out(cli: Cli) -> None:
    samples, stereo = np.arange(2000), np.stack([np.arange(500), -np.arange(500)], axis=1)
    _wave("a.wav", samples)
    _wave("b.wav", stereo)
    Path("wav.scp").write_text("a a.wav\nb cat b.wav |\n")
    Path("segments").write_text(
        "s1 a 0.5 1.25\ns2 b 0.1 0.4 1\ns3 a 1.2345 -1\ns4 a 1.5 2.4\n"  # the last one reaches over the end
        "x1 a 1.5 2.6\nx2 a 1.0 1.05\nx3 a 1.0 0.5\nx4 nobody 0 1\nx5 b 0 0.4 2\nx6 b 0 0.4\nx7 a 1\nx8 a one 2\n"
        "x9 a 3.0 3.4\ny1 a nan 1\ny2 a 0 nan\ny3 a 0 inf\ny4 a 0 1e300\n\n"
    )
    outcome = cli.good("extract-segments", "scp:wav.scp", "segments", "ark:out.ark")
    assert "Successfully processed 4 lines out of 18" in outcome.err
    assert "overflow" not in outcome.err
    for name, why in (
        ("x1", "lies outside of the recording, which has 2 s"),
        ("x2", "its 0.05 s are shorter than --min-segment-length=0.1"),
        ("x3", "start, end and channel make no segment"),
        ("x4", "there is no recording 'nobody'"),
        ("x5", "there is no channel 2 of 2"),
        ("x6", "has 2 channels: say which"),
        ("x7", "expected 'NAME RECORDING START END"),
        ("x8", "are no numbers"),
        ("x9", "lies outside"),
        *((f"y{number}", "start, end and channel make no segment") for number in range(1, 5)),
    ):
        assert f"segment '{name}' left out: " in outcome.err
        assert why in next(line for line in outcome.err.splitlines() if f"'{name}'" in line)
    expected = {"s1": samples[500:1250], "s2": stereo[100:400, 1], "s3": samples[1235:], "s4": samples[1500:]}
    found = _segments()
    assert list(found) == list(expected)
    for key, part in expected.items():
        np.testing.assert_array_equal(found[key], part)
    cli.good("extract-segments", "--min-segment-length=1", "ark:out.ark", "echo t s3 0 -1 |", "ark:none.ark")
    cli.good("extract-segments", "ark:out.ark", "printf 't s3 0.1 0.3\\nu s1 0 0.2\\n' |", "ark:two.ark")
    np.testing.assert_array_equal(_segments("ark:two.ark")["u"], samples[500:700])


def test_voice_activity_of_two_tables(cli: Cli) -> None:
    Path("one").write_text("u [ 0 0 1 1 ]\nv [ 1 ]\nw [ 1 1 ]\n")
    Path("two").write_text("u [ 0 1 0 1 ]\nw [ 1 2 1 ]\n")
    outcome = cli.good("merge-vads", "ark:one", "ark:two", "ark,t:-")
    assert outcome.out == "u  [ 0 0 0 1 ]\n"
    assert "'v' left out: ark:two has no labels for it" in outcome.err
    assert "'w' left out: it has 2 labels in ark:one, and 3 in ark:two" in outcome.err
    Path("map").write_text("0 0 2 # silence\n\n0 1 0\n1 0 0\n1 1 5\n")
    assert cli.good("merge-vads", "--map=map", "ark:one", "ark:two", "ark,t:-").out == "u  [ 2 0 0 5 ]\n"
    Path("map").write_text("0 0 2\n")
    outcome = cli("merge-vads", "--map=map", "ark:one", "ark:two", "ark,t:-")
    assert outcome.status == 1
    assert "there is no label for 0 and 1" in outcome.err
    Path("map").write_text("0 0\n")
    assert "map: expected three integers a line" in cli("merge-vads", "--map=map", "ark:one", "ark:two", "ark,t:-").err


def test_segments_of_features(cli: Cli) -> None:
    rows = np.arange(40, dtype=np.float32).reshape(40, 1)
    with matrix_writer("ark:in.ark") as writer:
        writer.write("u", rows)
    Path("segments").write_text(
        "a u 0.05 0.25\nb u 0.1 0.15\nc u 0.3 0.6\nd other 0 1\ne u 0.2 0.2\nf u 0 0.5\ng u x 1\nh u 0.1 -1\n"
        "i u 0 inf\n"
    )
    outcome = cli.good("extract-feature-segments", "ark:in.ark", "segments", "ark:out.ark")
    found = dict(open_matrix_table("ark:out.ark"))
    assert set(found) == {"a"}
    assert found["a"].tolist() == rows[5:23].tolist()  # the last two frames reach over the end
    assert outcome.err.count("left out") == 8
    assert "segment 'h' left out: it ends before it begins: 'h u 0.1 -1'" in outcome.err
    cli.good("extract-feature-segments", "--snip-edges=false", "--min-segment-length=0.04", "--max-overshoot=0.12",
             "ark:in.ark", "segments", "ark:out.ark")  # fmt: skip
    found = dict(open_matrix_table("ark:out.ark"))
    assert {key: (matrix[0, 0], len(matrix)) for key, matrix in found.items()} == {
        "a": (5, 20), "b": (10, 5), "f": (0, 40)
    }  # fmt: skip
