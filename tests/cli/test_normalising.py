"""compute-cmvn-stats and apply-cmvn-online: utterances, speakers, all; apply-cmvn with sums of many frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.kaldi_io import (
    TableReader,
    Writer,
    load_matrix,
    matrix_writer,
    open_matrix_table,
    vector_writer,
    write_wxfilename,
)
from nnet3.options import OnlineCmvnOptions
from nnet3.speech.features.cmvn import add_to_stats
from nnet3.speech.features.features import OnlineCmvn
from tests.cli.run_command import Cli

RNG = np.random.default_rng(11)
FEATURES = {key: RNG.normal(n, 2, (20 + n, 3)).astype(np.float32) for n, key in enumerate("abc")}


@pytest.fixture(autouse=True)
def tables(cli: Cli) -> None:
    with matrix_writer("ark,scp:feats.ark,feats.scp") as writer:
        for key, matrix in FEATURES.items():
            writer.write(key, matrix)
    Path("spk2utt").write_text("s a b\nt c\nu nobody\n")


def _check(expected: dict[str, np.ndarray], table: str = "ark:out.ark") -> None:
    found = dict(open_matrix_table(table))
    assert found.keys() == expected.keys()
    for key, matrix in expected.items():
        np.testing.assert_array_equal(found[key], matrix, err_msg=key)


def _doubles(table: str) -> dict[str, np.ndarray]:
    return dict(TableReader(table, lambda reader: reader.matrix(np.float64)))


def test_statistics_of_utterances_speakers_and_all(cli: Cli) -> None:
    cli.good("compute-cmvn-stats", "scp:feats.scp", "ark:cmvn.ark")
    for key, stats in _doubles("ark:cmvn.ark").items():
        np.testing.assert_array_equal(stats, add_to_stats(None, FEATURES[key]))
    outcome = cli.good("compute-cmvn-stats", "--spk2utt=ark:spk2utt", "scp:feats.scp", "ark:speakers.ark")
    assert "utterance 'nobody' left out" in outcome.err
    assert "there are no statistics for 'u'" in outcome.err
    found = _doubles("ark:speakers.ark")
    assert found.keys() == {"s", "t"}
    np.testing.assert_array_equal(found["s"], add_to_stats(add_to_stats(None, FEATURES["a"]), FEATURES["b"]))
    cli.good("compute-cmvn-stats", "--binary=false", "scp:feats.scp", "all")
    whole = add_to_stats(None, np.concatenate(list(FEATURES.values())))
    np.testing.assert_array_equal(load_matrix("all"), whole.astype(np.float32))
    weights = {key: RNG.uniform(0, 1, len(matrix)).astype(np.float32) for key, matrix in FEATURES.items()}
    with vector_writer("ark:weights.ark") as writer:
        for key in ("a", "b"):
            writer.write(key, weights[key][:21])
    outcome = cli.good("compute-cmvn-stats", "--weights=ark:weights.ark", "scp:feats.scp", "ark:cmvn.ark")
    assert "utterance 'c' left out: there are no weights for it" in outcome.err
    np.testing.assert_array_equal(_doubles("ark:cmvn.ark")["a"], add_to_stats(None, FEATURES["a"], weights["a"]))
    assert cli("compute-cmvn-stats", "--spk2utt=ark:spk2utt", "scp:feats.scp", "all").status == 1
    cli.good("apply-cmvn", "--utt2spk=ark:echo a s |", "ark:speakers.ark", "scp:feats.scp", "ark:out.ark")


def test_statistics_of_many_frames_keep_their_bits(cli: Cli) -> None:
    """Sums beyond what float32 holds, whose difference is a variance of 1."""
    count, mean = 2**24 + 1, 1000.25
    with matrix_writer("ark:wide.ark") as writer:
        writer.write("a", np.array([[1000.0], [1003.0]], np.float32))
    Path("all").write_text(f" [ {mean * count:.0f} {count}\n {(mean**2 + 1) * count:.0f} 0 ]\n")
    cli.good("apply-cmvn", "--norm-vars=true", "all", "ark:wide.ark", "ark:out.ark")
    found = dict(open_matrix_table("ark:out.ark"))["a"][:, 0]
    np.testing.assert_allclose(found, [-0.25, 2.75], atol=1e-3)


def test_statistics_of_all_are_single_as_kaldis(cli: Cli) -> None:
    with matrix_writer("ark:few.ark") as writer:
        writer.write("a", np.full((3, 1), 0.1, np.float32))
    cli.good("compute-cmvn-stats", "ark:few.ark", "all")
    header = b"\0BFM \4\2\0\0\0\4\2\0\0\0"  # compute-cmvn-stats of Kaldi wrote these bytes
    assert Path("all").read_bytes() == header + bytes.fromhex("9a99993e 00004040 90c2f53c 00000000")


def test_a_frame_that_counts_nothing_may_be_nan(cli: Cli) -> None:
    with matrix_writer("ark:nan.ark") as writer:
        writer.write("a", np.array([[np.nan], [1], [2]], np.float32))
    with vector_writer("ark:weights.ark") as writer:
        writer.write("a", np.array([0, 1, 0.5], np.float32))
    cli.good("compute-cmvn-stats", "--weights=ark:weights.ark", "ark:nan.ark", "ark:cmvn.ark")
    np.testing.assert_array_equal(_doubles("ark:cmvn.ark")["a"], [[2, 1.5], [3, 0]])


def test_more_frames_of_speakers_and_everybody_than_the_window_has(cli: Cli) -> None:
    """The numbers are those of Kaldi's apply-cmvn-online."""
    rows = np.array([[1, 5], [2, 3], [4, 4], [8, 0]], np.float32)
    with matrix_writer("ark:few.ark") as writer:
        writer.write("a", rows)
        writer.write("b", rows[::-1])
    Path("all").write_text(" [ 10 20 4\n 40 120 0 ]\n")
    Path("spk2utt").write_text("s a b\n")
    command = ["apply-cmvn-online", "--spk2utt=ark:spk2utt"]
    cli.good(*command, "--cmn-window=2", "all", "ark:few.ark", "ark:out.ark")
    _check(
        {
            "a": np.array([[-0.75, 0], [0.5, -1], [1, 0.5], [2, -2]]),
            "b": np.array([[2.125, -1.5], [-2, 2], [-1, -0.5], [-0.5, 1]]),
        }
    )
    more = ["--cmn-window=3", "--speaker-frames=1", "--global-frames=2", "--norm-vars=true"]
    cli.good(*command, *more, "all", "ark:few.ark", "ark:out.ark")
    found = dict(open_matrix_table("ark:out.ark"))["b"]
    expected = [[1.072222, -1.003929], [-0.502519, 0.827606], [-1.069045, 0.392232], [-1.069045, 1.224745]]
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_normalising_by_what_came_before(cli: Cli) -> None:
    cli.good("compute-cmvn-stats", "scp:feats.scp", "all")
    words = ["--cmn-window=12", "--speaker-frames=10", "--global-frames=5", "--norm-vars=true"]
    cli.good("apply-cmvn-online", *words, "--spk2utt=ark:spk2utt", "all", "scp:feats.scp", "ark:out.ark")
    options = OnlineCmvnOptions(12, 10, 5, normalize_variance=True)
    everybody, expected, of_speaker = load_matrix("all", np.float64), {}, None
    for key in "abc":
        cmvn = OnlineCmvn(options, everybody, of_speaker if key == "b" else None)
        cmvn.accept(FEATURES[key])
        expected[key] = cmvn.at(np.arange(len(FEATURES[key])))
        of_speaker = cmvn.stats
    _check(expected)
    cli.good("apply-cmvn-online", *words, "all", "scp:feats.scp", "ark:alone.ark")
    alone = dict(open_matrix_table("ark:alone.ark"))
    np.testing.assert_array_equal(alone["a"], expected["a"])
    assert abs(alone["b"] - expected["b"]).max() > 1e-3
    Path("wrong").write_text(" [ 1 2\n 3 0 ]\n")
    outcome = cli("apply-cmvn-online", "wrong", "scp:feats.scp", "ark:out.ark")
    assert (outcome.status, "the statistics are (2, 2), expected (2, 4)" in outcome.err) == (1, True)


def test_what_is_not_finite_or_empty_does_not_count(cli: Cli) -> None:
    """Neither for those that come after it, nor for its speaker."""
    bad = FEATURES["b"].copy()
    bad[3, 1] = np.nan
    with matrix_writer("ark:bad.ark") as writer:
        for key, matrix in (("e", FEATURES["a"][:0, :0]), ("a", FEATURES["a"]), ("b", bad), ("c", FEATURES["c"])):
            writer.write(key, matrix)
    Path("spk2utt").write_text("s e b a c\n")
    expected = add_to_stats(add_to_stats(None, FEATURES["a"]), FEATURES["c"])
    outcome = cli.good("compute-cmvn-stats", "ark:bad.ark", "all")
    assert "utterance 'e' left out: it has no frames" in outcome.err
    assert "utterance 'b' left out: its sums are not finite" in outcome.err
    np.testing.assert_array_equal(load_matrix("all", np.float64), expected.astype(np.float32))
    cli.good("compute-cmvn-stats", "--spk2utt=ark:spk2utt", "ark:bad.ark", "ark:cmvn.ark")
    np.testing.assert_array_equal(_doubles("ark:cmvn.ark")["s"], expected)
    outcome = cli.good("apply-cmvn-online", "--spk2utt=ark:spk2utt", "all", "ark:bad.ark", "ark:out.ark")
    assert "utterance 'b' left out: its features have a NaN or an infinity" in outcome.err
    Path("spk2utt").write_text("s a c\n")
    cli.good("apply-cmvn-online", "--spk2utt=ark:spk2utt", "all", "scp:feats.scp", "ark:good.ark")
    _check(dict(open_matrix_table("ark:good.ark")))
    write_wxfilename("all", _written(np.full((2, 4), np.nan)))
    outcome = cli("apply-cmvn-online", "all", "scp:feats.scp", "ark:out.ark")
    assert (outcome.status, "all: the statistics have a NaN or an infinity" in outcome.err) == (1, True)


def test_columns_to_skip_are_numbers(cli: Cli) -> None:
    for wrong in ("1:x", "²"):
        outcome = cli("apply-cmvn", f"--skip-dims={wrong}", "all", "scp:feats.scp", "ark:out.ark")
        assert (outcome.status, f"it must be a list of integers, got '{wrong}'" in outcome.err) == (2, True)


def _written(matrix: np.ndarray) -> Writer:
    writer = Writer.of_file(binary=True)
    writer.matrix(matrix, double=True)
    return writer
