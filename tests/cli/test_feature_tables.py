"""add-deltas, splice-feats, subsample-feats, paste-feats on tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.kaldi_io import load_matrix, matrix_writer, open_matrix_table
from nnet3.speech.features.feature_changes import spliced, subsampled, with_deltas
from tests.cli.run_command import Cli

RNG = np.random.default_rng(11)
FEATURES = {key: RNG.normal(n, 2, (20 + n, 3)).astype(np.float32) for n, key in enumerate("abc")}


@pytest.fixture(autouse=True)
def tables(cli: Cli) -> None:
    with matrix_writer("ark,scp:feats.ark,feats.scp") as writer:
        for key, matrix in FEATURES.items():
            writer.write(key, matrix)


def _check(expected: dict[str, np.ndarray], table: str = "ark:out.ark") -> None:
    found = dict(open_matrix_table(table))
    assert found.keys() == expected.keys()
    for key, matrix in expected.items():
        np.testing.assert_array_equal(found[key], matrix, err_msg=key)


def test_changes_of_features(cli: Cli) -> None:
    cli.good("add-deltas", "--delta-order=1", "--delta-window=3", "--truncate=2", "scp:feats.scp", "ark:out.ark")
    _check({key: with_deltas(matrix[:, :2], 1, 3) for key, matrix in FEATURES.items()})
    outcome = cli("add-deltas", "--truncate=4", "scp:feats.scp", "ark:out.ark")
    assert (outcome.status, "it has 3 columns, fewer than --truncate=4" in outcome.err) == (1, True)
    cli.good("splice-feats", "--left-context=1", "--right-context=2", "scp:feats.scp", "ark:out.ark")
    _check({key: spliced(matrix, 1, 2) for key, matrix in FEATURES.items()})
    outcome = cli.good("subsample-feats", "--n=3", "--offset=20", "scp:feats.scp", "ark:out.ark")
    assert "utterance 'a' left out: no frame is left of 20" in outcome.err
    _check({key: subsampled(matrix, 3, 20) for key, matrix in FEATURES.items() if key != "a"})
    cli.good("subsample-feats", "--n=-2", "scp:feats.scp", "ark:out.ark")
    _check({key: np.repeat(matrix, 2, axis=0) for key, matrix in FEATURES.items()})
    Path("none").write_text("e  [ ]\n")
    cli.good("subsample-feats", "--n=-2", "ark:none", "ark:out.ark")  # nothing, repeated, is nothing
    _check({"e": np.zeros((0, 0))})
    for wrong, message in ((["--n=0"], "expected a number of frames"), (["--n=-2", "--offset=1"], "is for --n > 0")):
        outcome = cli("subsample-feats", *wrong, "scp:feats.scp", "ark:out.ark")
        assert (outcome.status, message in outcome.err) == (2, True)


def test_several_tables_side_by_side(cli: Cli) -> None:
    with matrix_writer("ark:pitch.ark") as writer:
        for key, cut in (("a", 1), ("b", 3)):
            writer.write(key, FEATURES[key][cut:, :1])
    outcome = cli.good("paste-feats", "--length-tolerance=1", "scp:feats.scp", "ark:pitch.ark", "ark:out.ark")
    assert "utterance 'b' left out: its tables have 21, 18 frames" in outcome.err
    assert "utterance 'c' left out: ark:pitch.ark has no features for it" in outcome.err
    _check({"a": np.concatenate([FEATURES["a"][:-1], FEATURES["a"][1:, :1]], axis=1)})
    assert cli("paste-feats", "ark:pitch.ark", "ark:out.ark").status == 2
    assert cli("paste-feats", "ark:pitch.ark", "scp:feats.scp", "out.mat").status == 2


def test_files_side_by_side(cli: Cli) -> None:
    Path("1.mat").write_text(" [ 1 2\n 3 4\n 5 6 ]\n")
    Path("2.mat").write_text(" [ 7\n 8 ]\n")
    cli.good("paste-feats", "--binary=false", "--length-tolerance=1", "1.mat", "2.mat", "out.mat")
    assert Path("out.mat").read_text().split() == ["[", "1", "2", "7", "3", "4", "8", "]"]
    outcome = cli("paste-feats", "1.mat", "2.mat", "none.mat")
    assert (outcome.status, "have 3, 2 frames" in outcome.err) == (1, True)
    cli.good("paste-feats", "1.mat[1:2]", "2.mat", "out.mat")
    np.testing.assert_array_equal(load_matrix("out.mat"), [[3, 4, 7], [5, 6, 8]])


def test_no_utterances_are_a_failure_where_kaldi_has_it_so(cli: Cli) -> None:
    for verb, status in (("add-deltas", 0), ("splice-feats", 0), ("subsample-feats", 1)):
        assert cli(verb, "ark:/dev/null", "ark:out.ark").status == status


def test_features_later_and_one_behind_the_other(cli: Cli) -> None:
    Path("a.mat").write_text(" [\n 1 2\n 3 4\n 5 6 ]\n")
    Path("b.mat").write_text(" [\n 7 8 ]\n")
    later = cli.good("shift-feats", "--shift=1", "--binary=false", "a.mat", "-").out
    assert later.split() == ["[", "1", "2", "1", "2", "3", "4", "]"]
    Path("table").write_text("u [\n 1\n 2\n 3 ]\n")
    assert cli.good("shift-feats", "--shift=-2", "ark:table", "ark,t:-").out.split() == ["u", "[", "3", "3", "3", "]"]
    both = cli.good("concat-feats", "--binary=false", "b.mat", "a.mat", "b.mat", "-").out
    assert both.split() == ["[", "7", "8", "1", "2", "3", "4", "5", "6", "7", "8", "]"]
    Path("c.mat").write_text(" [\n 7 ]\n")
    outcome = cli("concat-feats", "a.mat", "c.mat", "out.mat")
    assert outcome.status == 1
    assert "columns differ: a.mat has 2, c.mat has 1" in outcome.err
    assert cli("concat-feats", "a.mat", "out.mat").status == 2
