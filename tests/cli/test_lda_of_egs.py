"""LDA-like transforms of examples: Kaldi's lines, run here, give Kaldi's files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nnet3 import load_nnet
from nnet3.kaldi_io import Reader, load_matrix
from nnet3.training.train.lda_stats import LdaStats, unpacked
from tests.cli.run_command import Cli
from tests.road_case import RoadCase, needs_road, relative_error, road_cases, run_good, run_line

FULL = ("lda_default.mat", "lda.mat")


def _stats(name: Path | str) -> LdaStats:
    reader = Reader.open(name)
    stats = LdaStats.read(reader)
    reader.finish()
    return stats


def _check_stats(ours: LdaStats, theirs: LdaStats, tolerance: float = 1e-5) -> None:
    for part in ("zero", "first", "second"):
        assert relative_error(getattr(ours, part), getattr(theirs, part)) < tolerance


def _check_rows(ours: np.ndarray, theirs: np.ndarray, rank: int, tolerance: float) -> None:
    """Compares rows that are defined, up to their signs."""
    assert ours.shape == theirs.shape
    for mine, wanted in zip(ours[:rank], theirs[:rank], strict=True):
        assert min(relative_error(mine, wanted), relative_error(-mine, wanted)) < tolerance


def _numbers(lines: list[str], what: str) -> list[list[str]]:
    found = [re.findall(r"-?\d[\d.e+-]*", line.partition(what)[2]) for line in lines if what in line]
    assert found
    return found


@needs_road
@pytest.mark.parametrize("folder", road_cases("lda"), ids=lambda path: path.name)
def test_kaldis_lines_give_kaldis_files(cli: Cli, folder: Path) -> None:
    case = RoadCase(folder)
    case.take("egs.ark", "init.config")
    log = [line for each in case.lines("lda.cmd") for line in run_good(each).err.splitlines()]
    assert load_nnet("init.raw").info() == load_nnet(case.golden("init.raw")).info()
    rank = 9 if folder.name == "lda_3" else 20
    for name in ("1.acc", "2.acc", "lda.acc", "lda.txt.acc"):
        _check_stats(_stats(name), _stats(case.golden(name)))
    for name in (*FULL, "lda12.txt", "lda_ceiling.txt"):
        _check_rows(load_matrix(name), load_matrix(case.golden(name)), rank, 3e-4)
    # from Kaldi's own statistics
    Path("own").mkdir()
    run_good(f"sum-lda-accs own/lda.acc {folder}/1.acc {folder}/2.acc")
    _check_stats(_stats("own/lda.acc"), _stats(folder / "lda.acc"), 1e-6)
    for line in case.lines("lda.cmd")[-4:]:
        line = re.sub(r"(?<=\s)(\S+\.acc)", rf"{folder}/\1", line)
        run_good(re.sub(r"(?<=[ =])(\w+\.(mat|txt|tpmat|spmat))", r"own/\1", line))
    for name in (*FULL, "lda12.txt", "lda_ceiling.txt"):
        ours, theirs = load_matrix(f"own/{name}"), load_matrix(folder / name)
        _check_rows(ours, theirs, rank, 1e-5)
        if name in FULL:
            assert relative_error(ours.T @ ours, theirs.T @ theirs) < 1e-5
    for name in ("cholesky.tpmat", "within.spmat"):
        ours, theirs = (unpacked(Reader.open(each).packed()) for each in (f"own/{name}", case.golden(name)))
        assert relative_error(ours, theirs) < 1e-5
    wanted = case.lines("lda.log")
    for what in ("Data count is", "Sum of all singular values is", "Sum of selected singular values is"):
        assert _numbers(log, what) == _numbers(wanted, what)
    for mine, theirs in zip(_numbers(log, "values are"), _numbers(wanted, "values are"), strict=True):
        np.testing.assert_allclose([float(v) for v in mine[:rank]], [float(v) for v in theirs[:rank]], rtol=2e-5)
    if any("ceiling" in line for line in wanted):
        assert _numbers(log, "Applied ceiling") == _numbers(wanted, "Applied ceiling")
    for what in ("Processed", "soft frame count ="):
        assert _numbers(log, what)[:2] == _numbers(wanted, what)[:2]
    case.check_all_compared()


@needs_road
def test_random_pruning_keeps_the_mean(cli: Cli) -> None:
    (folder,) = (path for path in road_cases("lda") if path.name == "lda_1")
    run_good(f"nnet3-acc-lda-stats --rand-prune=4.0 {folder}/init.raw ark:{folder}/egs.ark pruned.acc")
    pruned, whole = _stats("pruned.acc"), _stats(folder / "lda.acc")
    assert set(np.unique(pruned.zero % 4.0)) == {0.0}
    assert pruned.zero.sum() == pytest.approx(whole.zero.sum(), rel=0.3)


@needs_road
def test_examples_and_statistics_that_do_not_fit(cli: Cli) -> None:
    first, second, third = road_cases("lda")[:3]
    assert "there are no examples" in run_line(f"nnet3-acc-lda-stats {first}/init.raw ark:/dev/null out").err
    assert "24 classes of 20 and 10 classes of 39" in run_line(f"sum-lda-accs out {first}/1.acc {third}/1.acc").err
    assert "got 21" in run_line(f"nnet-get-feature-transform --dim=21 out {first}/1.acc").err
    assert run_line(f"nnet3-chain-acc-lda-stats {second}/init.raw ark:{first}/egs.ark out").status == 1
    assert "one sequence is expected, not of 15" in _of_merged(second)
    assert not Path("out").exists()


def _of_merged(folder: Path) -> str:
    run_good(f"nnet3-chain-merge-egs --minibatch-size=15 ark:{folder}/egs.ark ark:merged.ark")
    return run_line(f"nnet3-chain-acc-lda-stats {folder}/init.raw ark:merged.ark out").err


@needs_road
def test_a_transform_and_its_covariance_are_written_together(cli: Cli) -> None:
    (folder, *_) = road_cases("lda")
    for options in ("--write-cholesky=c --write-within-covar=/dev/full", "--write-cholesky=/dev/full"):
        failed = run_line(f"nnet-get-feature-transform --dim=2 {options} out {folder}/1.acc")
        assert "/dev/full: cannot write this file: No space left on device" in failed.err
        assert not Path("c").exists()
        assert not Path("out").exists()
