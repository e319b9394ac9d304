"""Verbs of vectors and matrices: their options have Kaldi's defaults."""

from __future__ import annotations

from tests.cli.check_options import check_options


def test_options_have_kaldis_defaults() -> None:
    check_options("copy-matrix", {"--scale": (1.0, None), "--apply-power": (1.0, None)})
    check_options("copy-vector", {"--scale": (1.0, None), "--change-dim": (-1, -1)})
    check_options("matrix-sum", {"--scale1": (1.0, None), "--scale2": (1.0, None)})
    check_options("subset-feats", {"--n": (-1, None)})
