"""Verbs of empty tables: they have the exit status of Kaldi's programs, and do not end with a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnet3 import load
from tests.cli.run_command import Cli
from tests.shared_data import GOLDEN, needs_shared

_MODEL = str(GOLDEN / "mdl/1/final.mdl")
# The command, and what Kaldi's program returns; IN is an empty archive.
_STATUS = {
    "copy-feats IN ark:out": 1,
    "copy-int-vector IN ark:out": 1,
    "feat-to-len IN ark:out": 0,
    "feat-to-dim IN out": 1,
    "splice-feats IN ark:out": 0,
    "add-deltas IN ark:out": 0,
    "subsample-feats IN ark:out": 1,
    "select-feats 0 IN ark:out": 0,
    "subset-feats IN ark:out": 0,
    "subset-feats --exclude=empty IN ark:out": 1,
    "compose-transforms IN IN ark:out": 0,
    "copy-vector IN ark:out": 1,
    "vector-scale IN ark:out": 0,
    "paste-feats IN IN ark:out": 1,
    "apply-cmvn IN IN ark:out": 1,
    "compute-cmvn-stats IN ark:out": 1,
    "matrix-sum-rows IN ark:out": 1,
    "copy-egs IN ark:out": 1,
    "merge-egs IN ark:out": 1,
    "shuffle-egs IN ark:out": 1,
    "subset-egs IN ark:out": 1,
    "compute-from-egs net.raw IN ark:out": 0,
    "compute-prob net.raw IN": 1,
    "train net.raw IN out": 1,
    "acc-lda-stats net.raw IN out": 1,
    "compute net.raw IN ark:out": 1,
    "compute-batch net.raw IN ark:out": 1,
    "lattice-copy IN ark:out": 1,
    "lattice-best-path IN ark:out": 1,
    "lattice-1best IN ark:out": 1,
    "lattice-scale IN ark:out": 1,
    "nbest-to-linear IN ark:out": 1,
    "compute-mfcc-feats IN ark:out": 1,
    "ali-to-post IN ark:out": 1,
    "ali-to-pdf MODEL IN ark:out": 0,
    "ali-to-phones MODEL IN ark:out": 0,
    "post-to-tacc MODEL IN out": 1,
    "am-train-transitions MODEL IN out": 1,
}


@needs_shared
@pytest.mark.parametrize("command", _STATUS)
def test_the_status_is_that_of_kaldi(cli: Cli, command: str) -> None:
    Path("empty").touch()
    outcome = cli(*command.replace("IN", "ark:empty").replace("MODEL", _MODEL).split())
    assert outcome.status == _STATUS[command], outcome.err
    assert outcome.err if outcome.status else Path("out").read_bytes() == b""


def test_a_network_that_has_learnt_nothing_is_written(cli: Cli) -> None:
    Path("empty").touch()
    outcome = cli("train", "net.raw", "ark:empty", "out")
    assert (outcome.status, "no minibatch to train on" in outcome.err) == (1, True)
    for one, other in zip(load("out").flat_parameters(), load("net.raw").flat_parameters(), strict=True):
        assert one.equal(other)
