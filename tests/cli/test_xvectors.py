"""The verbs of x-vectors: tables in, tables out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3 import Nnet, xvectors
from nnet3.kaldi_io import matrix_writer, open_vector_table
from tests.cli.run_command import Cli
from tests.shared_data import golden_cases

CONFIG = """
input-node name=input dim=3
component name=extract type=StatisticsExtractionComponent input-dim=3 input-period=1 output-period=1
component name=pool type=StatisticsPoolingComponent input-dim=7 input-period=1 left-context=0 right-context=10000
component-node name=extract component=extract input=input
component-node name=pool component=pool input=extract
output-node name=output input=pool
"""
LENGTHS = {"utt1": 10, "utt2": 25, "utt3": 10, "utt4": 0, "utt5": 47}
FEATURES = {key: np.random.default_rng(1).normal(size=(rows, 3)).astype(np.float32) for key, rows in LENGTHS.items()}


def _read(path: str | Path) -> dict[str, np.ndarray]:
    with open_vector_table(f"ark:{path}") as table:
        return {key: np.asarray(vector) for key, vector in table}


@pytest.fixture
def tables(cli: Cli) -> Cli:
    Nnet.from_config(CONFIG).save("pool.raw")
    with matrix_writer("ark,scp:pool.ark,pool.scp") as writer:
        for key, matrix in FEATURES.items():
            writer.write(key, matrix)
    return cli


def test_vectors_come_in_order_and_bad_utterances_are_named(tables: Cli) -> None:
    outcome = tables.good("xvector-compute", "--chunk-size=20", "pool.raw", "scp:pool.scp", "ark,scp:out.ark,out.scp")
    assert "warning: utterance 'utt4' left out: the utterance has no frames" in outcome.err
    assert "4 utterances computed, 1 left out; 92 frames" in outcome.err
    found, nnet = _read("out.ark"), Nnet.from_config(CONFIG)
    assert list(found) == ["utt1", "utt2", "utt3", "utt5"]
    for key, vector in found.items():
        np.testing.assert_allclose(vector, xvectors(nnet, FEATURES[key], 20), rtol=1e-4, atol=1e-5)


def test_short_utterances_are_left_out_without_padding(tables: Cli) -> None:
    options = ["--min-chunk-size=20", "--pad-input=false"]
    outcome = tables.good("xvector-compute", *options, "pool.raw", "ark:pool.ark", "ark:out.ark")
    assert "utterance 'utt1' left out: its 10 frames are fewer than the 20 of the smallest chunk" in outcome.err
    assert list(_read("out.ark")) == ["utt2", "utt5"]
    outcome = tables("xvector-compute", "--min-chunk-size=50", "--pad-input=no", "pool.raw", "ark:pool.ark", "ark:x")
    assert (outcome.status, Path("x").exists()) == (1, False)
    assert "no utterance was computed (5 left out)" in outcome.err


def test_chunks_of_one_size_as_kaldi_computes_them(tables: Cli) -> None:
    """Its command line as it stands; without the whole golden data, chunks that cover the mean evenly."""
    for folder in golden_cases("xvector", "batched_100.ark"):
        model, features = folder / "model.raw", folder / "feats.ark"
        options = ["--use-gpu=no", "--chunk-size=100", "--batch-size=4", "--cache-capacity=64"]
        tables.good("xvector-compute-batched", *options, model, f"ark:{features}", "ark:out.ark")
        expected, found = _read(folder / "batched_100.ark"), _read("out.ark")
        assert list(found) == list(expected)
        for key, vector in expected.items():
            assert np.linalg.norm(found[key] - vector) <= 1e-3 * np.linalg.norm(vector)
    cache = ["--cached-compiler-in=cache", "--cached-compiler-out=cache"]
    for _ in range(2):
        tables.good("xvector-compute-batched", "--chunk-size=5", *cache, "pool.raw", "ark:pool.ark", "ark:out.ark")
    np.testing.assert_allclose(_read("out.ark")["utt2"][:3], FEATURES["utt2"].mean(axis=0), rtol=1e-4)


def test_examples_go_to_the_tables_that_the_ranges_name(tables: Cli) -> None:
    Path("ranges").write_text("utt1 0 0 0 8 1\nutt2 1 0 3 8 0\nutt3 1 0 0 8 1\nutt5 0 0 45 8 2\n")
    outcome = tables.good("xvector-get-egs", "ranges", "scp:pool.scp", "ark:egs.1.ark", "ark:egs.2.ark")
    assert "4 examples of 5 utterances; 1 utterances without ranges" in outcome.err
    for number in (1, 2):
        merged = tables.good("merge-egs", "--minibatch-size=2", f"ark:egs.{number}.ark", "ark:merged.ark")
        assert "1 minibatches" in merged.err
    Path("ranges").write_text("utt1 0 0 0 8 1\n")
    outcome = tables("xvector-get-egs", "ranges", "scp:pool.scp", "ark:egs.ark")
    assert outcome.status == 1
    assert "ranges: 4 of 5 utterances are not in it" in outcome.err
    Path("ranges").write_text("utt1 0 0 0 80 1\n")
    outcome = tables("xvector-get-egs", "ranges", "scp:pool.scp", "ark:none.ark")
    assert (outcome.status, Path("none.ark").exists()) == (1, False)
    assert "no examples were written" in outcome.err
