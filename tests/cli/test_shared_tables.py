"""Processes of torchrun share a table: one ark,scp set comes out, and what a killed one has finished stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.cli.shared_tables import shares, table_sizes
from nnet3.errors import TableError
from nnet3.kaldi_io import matrix_writer, open_matrix_table
from tests.cli.run_command import Cli
from tests.torchrun import torchrun


def _read(rspecifier: str) -> dict[str, np.ndarray]:
    with open_matrix_table(rspecifier) as table:
        return {key: np.asarray(matrix) for key, matrix in table}


@pytest.fixture
def features(cli: Cli) -> Cli:
    rng = np.random.default_rng(0)
    with matrix_writer("ark,scp:feats.ark,feats.scp") as writer:
        for number, length in enumerate((40, 3, 30, 5, 20, 8, 12, 1, 9, 6)):
            writer.write(f"utt{number}", rng.standard_normal((length, 3)).astype(np.float32))
    cli.good("compute", "net.raw", "scp:feats.scp", "ark,scp:alone.ark,alone.scp")
    return cli


@pytest.mark.usefixtures("features")
def test_processes_share_a_table_and_nothing_is_lost_with_one(programs: Path) -> None:
    words = ["compute", "net.raw", "scp:feats.scp", "ark,scp:out.ark,out.scp"]
    printed = torchrun(programs, "nnet3-dying-at-a-table", *words)
    found, alone = _read("scp:out.scp"), _read("ark:alone.ark")
    assert list(found) == list(alone)
    for key, rows in alone.items():
        np.testing.assert_allclose(found[key], rows, rtol=1e-4, atol=1e-6)
    said = [line for line in printed.splitlines() if " utterances computed" in line]
    assert len(said) == 1
    resumed = int(said[0].split()[1])
    assert "were there already" in said[0]
    assert resumed >= 3
    assert sum(len(_read(f"ark:out.{rank}.ark")) for rank in range(2)) == len(alone)


def test_what_processes_cannot_share(features: Cli) -> None:
    with pytest.raises(TableError, match="several processes need features that each of them can read: give scp:"):
        table_sizes("ark:cat feats.ark |")
    assert table_sizes("ark:feats.ark")["utt0"] == 40
    by_bytes = table_sizes("scp:feats.scp")
    assert list(by_bytes) == list(table_sizes("ark:feats.ark"))
    assert by_bytes["utt0"] - by_bytes["utt2"] == 10 * 3 * 4


@given(st.dictionaries(st.text(min_size=1), st.integers(0, 1000)), st.integers(1, 6))
def test_shares_are_nearly_equal(sizes: dict[str, int], number: int) -> None:
    found = shares(sizes, number)
    assert sorted(key for share in found for key in share) == sorted(sizes)
    loads = [sum(sizes[key] for key in share) for share in found]
    assert max(loads) - min(loads) <= max(sizes.values(), default=0)
