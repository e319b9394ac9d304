"""The verb compute: whole utterances, as Kaldi's nnet3-compute writes them."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from cli.run_command import IVECTOR_CONFIG, NORM_CONFIG, Cli
from nnet3 import Nnet
from nnet3.kaldi_io import matrix_writer, open_matrix_table
from shared_data import GOLDEN, golden_cases, needs_shared

FEATURES = {"utt1": np.arange(30, dtype=np.float32).reshape(10, 3) / 30, "utt2": np.ones((1, 3), np.float32)}


def _read(path: str | Path) -> dict[str, np.ndarray]:
    with open_matrix_table(f"ark:{path}") as table:
        return {key: np.asarray(matrix) for key, matrix in table}


@pytest.fixture
def features(cli: Cli) -> Cli:
    with matrix_writer("ark:feats.ark") as writer:
        for key, matrix in FEATURES.items():
            writer.write(key, matrix)
    return cli


@needs_shared
@pytest.mark.parametrize("folder", golden_cases("decode"), ids=lambda path: path.name)
def test_decoding_agrees_with_kaldi(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, *options = shlex.split((folder / "compute.cmd").read_text())
    monkeypatch.chdir(folder)  # the options name tables in it
    output = tmp_path / "out.ark"
    cli.good("compute", *options, "model.raw", "ark:feats.ark", f"ark:{output}")
    actual, expected = _read(output), _read(folder / "compute.ark")
    assert list(actual) == list(expected)
    for key, matrix in expected.items():
        assert actual[key].shape == matrix.shape
        assert np.linalg.norm(actual[key] - matrix) <= 1e-4 * np.linalg.norm(matrix)


def test_chunks_give_what_the_whole_gives(features: Cli) -> None:
    features.good("compute", "net.raw", "ark:feats.ark", "ark:whole.ark")
    outcome = features.good("compute", "--frames-per-chunk=4", "net.raw", "ark:feats.ark", "ark:chunks.ark")
    assert "2 utterances computed, 0 left out; 11 frames" in outcome.err
    whole, chunks = _read("whole.ark"), _read("chunks.ark")
    for key, matrix in FEATURES.items():
        assert whole[key].shape == (len(matrix), 4)
        np.testing.assert_allclose(chunks[key], whole[key], rtol=1e-5, atol=1e-6)


def test_subsampling_takes_every_third_frame(features: Cli) -> None:
    features.good("compute", "net.raw", "ark:feats.ark", "ark:all.ark")
    features.good("compute", "--frame-subsampling-factor=3", "net.raw", "ark:feats.ark", "ark:third.ark")
    np.testing.assert_allclose(_read("third.ark")["utt1"], _read("all.ark")["utt1"][::3], rtol=1e-5)


def test_apply_exp_writes_posteriors(features: Cli) -> None:
    features.good("compute", "--apply-exp=true", "net.raw", "ark:feats.ark", "ark:out.ark")
    np.testing.assert_allclose(_read("out.ark")["utt1"].sum(axis=1), 1.0, rtol=1e-5)


def test_ivectors_one_each_or_online(features: Cli) -> None:
    Nnet.from_config(IVECTOR_CONFIG).save("ivector.raw")
    Path("single.ark").write_text("utt1  [ 1 2 ]\nutt2  [ 0 0 ]\n")
    with matrix_writer("ark:online.ark") as writer:
        writer.write("utt1", np.array([[1, 2]], np.float32))
    features.good("compute", "--ivectors=ark:single.ark", "ivector.raw", "ark:feats.ark", "ark:single_out.ark")
    options = ["--online-ivectors=ark:online.ark", "--online-ivector-period=20"]
    outcome = features.good("compute", *options, "ivector.raw", "ark:feats.ark", "ark:online_out.ark")
    assert "warning: utterance 'utt2' left out: no ivector for it" in outcome.err
    single, online = _read("single_out.ark"), _read("online_out.ark")
    assert list(online) == ["utt1"]
    np.testing.assert_array_equal(online["utt1"], single["utt1"])


def test_scripts_and_text(features: Cli) -> None:
    features.good("compute", "net.raw", "ark:feats.ark", "ark,scp:out.ark,out.scp")
    features.good("compute", "net.raw", "ark:feats.ark", "ark,t:out.txt")
    assert Path("out.txt").read_text().startswith("utt1  [")
    assert [line.split()[0] for line in Path("out.scp").read_text().splitlines()] == ["utt1", "utt2"]


@needs_shared
def test_priors_are_subtracted(cli: Cli) -> None:
    model = GOLDEN / "mdl" / "1" / "final.mdl"
    with matrix_writer("ark:feats.ark") as writer:
        writer.write("utt", np.ones((3, 12), np.float32))
    cli.good("compute", model, "ark:feats.ark", "ark:plain.ark")
    cli.good("compute", "--use-priors=true", model, "ark:feats.ark", "ark:scores.ark")
    difference = _read("plain.ark")["utt"] - _read("scores.ark")["utt"]
    np.testing.assert_allclose(np.exp(difference).sum(axis=1), 1.0, rtol=1e-4)


@pytest.mark.filterwarnings("default")
def test_a_warning_of_the_library_is_one_line(features: Cli) -> None:
    Path("norm.config").write_text(NORM_CONFIG)
    features.good("init", "norm.config", "norm.raw")
    warning, summary = features.good("compute", "norm.raw", "ark:feats.ark", "ark:out.ark").err.splitlines()
    assert warning.startswith("nnet3: warning: a batch-norm component in test mode has no statistics")
    assert "2 utterances computed" in summary


def test_an_error_half_way_leaves_no_archive(features: Cli) -> None:
    contents = Path("feats.ark").read_bytes()
    Path("cut.ark").write_bytes(contents[:-2])
    outcome = features("compute", "net.raw", "ark:cut.ark", "ark,scp:out.ark,out.scp")
    assert outcome.status == 1
    assert "the entry 'utt2'" in outcome.err
    assert not Path("out.ark").exists()
    assert not Path("out.scp").exists()


def test_what_is_not_finite_is_left_out_and_said_where(cli: Cli) -> None:
    good, bad = np.ones((4, 3), np.float32), np.ones((4, 3), np.float32)
    bad[2, 1] = np.nan
    with matrix_writer("ark:feats.ark") as writer:
        writer.write("utt1", bad)
        writer.write("utt2", good)
    outcome = cli.good("compute", "net.raw", "ark:feats.ark", "ark:out.ark")
    assert "utterance 'utt1' left out: the features have a NaN or an infinity, first in row 2\n" in outcome.err
    assert list(_read("out.ark")) == ["utt2"]
    Nnet.from_config(IVECTOR_CONFIG).save("ivector.raw")
    Path("vectors").write_text("utt1 [ 0 1 ]\nutt2 [ inf 1 ]\n")
    outcome = cli("compute", "--ivectors=ark:vectors", "ivector.raw", "ark:feats.ark", "ark:out.ark")
    assert outcome.status == 1
    assert "utterance 'utt2' left out: the ivectors have a NaN or an infinity, first in row 0\n" in outcome.err


def test_progress_in_lines(features: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3.cli.compute._SECONDS_BETWEEN_LINES", 0.0)
    lines = features.good("compute", "net.raw", "ark:feats.ark", "ark:out.ark").err.splitlines()
    assert [line.partition(";")[0] for line in lines] == [
        "nnet3: 1 utterances computed, 0 left out",
        "nnet3: 2 utterances computed, 0 left out",
        "nnet3: 2 utterances computed, 0 left out",
    ]
