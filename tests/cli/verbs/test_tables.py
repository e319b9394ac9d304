"""apply-cmvn: means and variances of utterances and speakers, and what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.kaldi_io import matrix_writer, open_matrix_table
from tests.cli.run_command import Cli

FEATURES = {key: np.random.default_rng(n).normal(n, 2, (20, 3)).astype(np.float32) for n, key in enumerate("ab")}


@pytest.fixture
def tables(cli: Cli) -> None:
    """`feats.ark`; statistics of each utterance, and of all as those of speaker s."""
    whole = np.concatenate(list(FEATURES.values()))
    with matrix_writer("ark:feats.ark") as feats, matrix_writer("ark:cmvn.ark") as stats:
        for key, matrix in {**FEATURES, "s": whole}.items():
            stats.write(key, np.stack([np.append(matrix.sum(0), len(matrix)), np.append((matrix**2).sum(0), 0)]))
            if key != "s":
                feats.write(key, matrix)
    Path("utt2spk").write_text("a s\nb s\n")


@pytest.mark.usefixtures("tables")
def test_utterances_speakers_and_back(cli: Cli) -> None:
    cli.good("apply-cmvn", "ark:cmvn.ark", "ark:feats.ark", "ark:means.ark")
    cli.good("apply-cmvn", "--norm-vars=true", "--skip-dims=1", "ark:cmvn.ark", "ark:feats.ark", "ark:both.ark")
    cli.good("apply-cmvn", "--norm-vars=true", "--utt2spk=ark:utt2spk", "ark:cmvn.ark", "ark:feats.ark", "ark:spk.ark")
    by_speaker = ["--norm-vars=true", "--reverse=true", "--utt2spk=ark:utt2spk"]
    cli.good("apply-cmvn", *by_speaker, "ark:cmvn.ark", "ark:spk.ark", "ark:back.ark")
    means, both, speaker, back = (
        dict(open_matrix_table(f"ark:{name}.ark")) for name in ("means", "both", "spk", "back")
    )
    for key, matrix in FEATURES.items():
        np.testing.assert_allclose(means[key], matrix - matrix.mean(0), atol=1e-5)
        normal = (matrix - matrix.mean(0)) / matrix.std(0)
        normal[:, 1] = matrix[:, 1]
        np.testing.assert_allclose(both[key], normal, atol=1e-5)
        np.testing.assert_allclose(back[key], matrix, atol=1e-4)
    whole = np.concatenate(list(speaker.values()))
    np.testing.assert_allclose((whole.mean(0), whole.std(0)), (np.zeros(3), np.ones(3)), atol=1e-5)


@pytest.mark.usefixtures("tables")
def test_nothing_is_done_and_what_cannot_be(cli: Cli) -> None:
    cli.good("copy-feats", "--compress=true", "ark:feats.ark", "ark:small.ark")
    for name in ("feats.ark", "small.ark"):  # compressed ones are not decoded
        cli.good("apply-cmvn", "--norm-means=false", "--norm-vars=false", "scp:nofile", f"ark:{name}", "ark:same.ark")
        assert Path("same.ark").read_bytes() == Path(name).read_bytes()
    Path("few").write_text("a s\nb q\n")
    outcome = cli.good("apply-cmvn", "--utt2spk=ark:few", "ark:cmvn.ark", "ark:feats.ark", "ark:out")
    assert "utterance 'b' left out: there are no statistics for 'q'" in outcome.err
    Path("wrong").write_text(" [ 1 2 3\n 4 5 6 ]\n")
    for arguments, message in (
        (["wrong", "ark:feats.ark", "ark:out"], "its statistics are (2, 3), expected (2, 4)"),
        (["--skip-dims=7", "ark:cmvn.ark", "ark:feats.ark", "ark:out"], "names column 7, but there are 3"),
        (["--utt2spk=ark:utt2spk", "wrong", "ark:feats.ark", "ark:out"], "needs a table of statistics"),
    ):
        outcome = cli("apply-cmvn", *arguments)
        assert (outcome.status, message in outcome.err) == (1, True)
    outcome = cli("apply-cmvn", "--norm-means=false", "--norm-vars=true", "wrong", "ark:a", "ark:b")
    assert outcome.err == "nnet3: norm-vars needs norm-means\n"
    assert cli("apply-cmvn", "--skip-dims=a", "wrong", "ark:a", "ark:b").status == 2
