from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from nnet3 import Nnet
from nnet3.errors import ArgumentError, ConfigError
from tests.xconfig.lda_network import LDA, XCONFIG, write_matrix


@pytest.mark.parametrize("name", ["lda", "lda.mat", "configs/lda.mat"])
def test_matrices_are_given_by_name(name: str) -> None:
    nnet = Nnet.from_xconfig(XCONFIG, **{name: LDA})
    assert nnet.warnings == []
    component = nnet.components["lda"]
    assert torch.equal(component.linear_params, torch.from_numpy(LDA[:, :6]))
    assert torch.equal(component.bias_params, torch.from_numpy(LDA[:, 6]))
    assert list(nnet.components)[:3] == ["lda", "t1.affine", "t1.relu"]


def test_a_matrix_without_bias_and_by_path(tmp_path: Path) -> None:
    write_matrix(tmp_path / "a.mat", LDA[:, :6])
    for matrix in (tmp_path / "a.mat", str(tmp_path / "a.mat"), torch.from_numpy(LDA[:, :6]), LDA[:, :6].astype(int)):
        component = Nnet.from_xconfig(XCONFIG, lda=matrix).components["lda"]
        assert torch.equal(component.linear_params, torch.from_numpy(LDA[:, :6]))
        assert not component.bias_params.any()


def test_no_file_means_the_identity() -> None:
    nnet = Nnet.from_xconfig(XCONFIG, source="net.xconfig")
    assert torch.equal(nnet.components["lda"].linear_params, torch.eye(4, 6))
    warning = "net.xconfig:3:1: lda: there is no file 'configs/lda.mat': the identity takes its place"
    assert nnet.warnings == [warning]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"lda": LDA[:3]}, "the matrix 'configs/lda.mat' is 3 x 7; it must be 4 x 7, the last column"),
        ({"lda": LDA[:3]}, "say dim=3"),
        ({"lda": LDA[:, :5]}, "is it made for another input?"),
        ({"ldaa": LDA}, "no layer has a file 'ldaa': the files are configs/lda.mat (did you mean 'lda'?)"),
        ({"lda": "nowhere.mat"}, "fixed-affine-layer 'lda': cannot read nowhere.mat"),
    ],
)
def test_matrices_that_do_not_fit(files: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        Nnet.from_xconfig(XCONFIG, **files)


@pytest.mark.parametrize("matrix", [np.zeros(3), np.array([["a"]]), [[1.0]], np.full((4, 6), np.nan)])
def test_what_is_no_matrix(matrix: object) -> None:
    with pytest.raises(ArgumentError, match=r"the matrix for 'configs/lda.mat'"):
        Nnet.from_xconfig(XCONFIG, lda=matrix)
