"""Arguments of a forward and of a module that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nnet3
from nnet3.errors import ArgumentError, NetworkError
from tests.train.torch_module.modules import module_of
from tests.train.torch_module.networks import IVECTOR, features

# ---- frames ----


# ---- parameters ----


# ---- modes ----


# ---- copies ----


# ---- dtypes ----


# ---- files ----


# ---- errors ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(4, 3),), r"features must be \(batch, frames, 3\), got \(4, 3\).*features\[None\]"),
        ((torch.zeros(2, 4, 5),), r"features must be \(batch, frames, 3\), got \(2, 4, 5\)$"),
        ((torch.zeros(2, 4, 3, 1),), r"features must be \(batch, frames, 3\), got \(2, 4, 3, 1\)$"),
        ((torch.zeros(2, 0, 3),), r"features must be \(batch, frames, 3\), got \(2, 0, 3\)"),
        ((np.zeros((2, 4, 3)),), "features must be a dense tensor, got ndarray"),
        ((torch.zeros(2, 4, 3).to_sparse(),), "features must be a dense tensor, got torch.sparse"),
        ((torch.zeros(2, 4, 3, dtype=torch.int64),), "features must be floats, got torch.int64"),
        ((torch.zeros(2, 4, 3).double(),), "features are torch.float64, but the parameters torch.float32"),
        ((torch.zeros(2, 4, 3, device="meta"),), "features are on meta, but the parameters on cpu"),
        ((torch.zeros(2, 4, 3), torch.zeros(2, 2)), "the network has no input 'ivector'"),
        ((torch.zeros(2, 4, 3), None, [4]), r"lengths must be 2 integers.*shape \(1,\)"),
        ((torch.zeros(2, 4, 3), None, [4.0, 2.0]), "lengths must be 2 integers, one for each sequence, got"),
        ((torch.zeros(2, 4, 3), None, [4, 5]), "lengths must be from 1 to the 4 frames of the batch, got 4 to 5"),
        ((torch.zeros(2, 4, 3), None, [0, 4]), "lengths must be from 1 to the 4 frames of the batch, got 0 to 4"),
    ],
)
def test_what_a_forward_cannot_take(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        module_of()(*arguments)


def test_a_nested_tensor_is_not_dense():
    """It is made here: making it imports a thousand modules."""
    with pytest.raises(ArgumentError, match="features must be a dense tensor"):
        module_of()(torch.nested.nested_tensor([torch.zeros(2, 3)], layout=torch.jagged))


def test_ivectors_that_do_not_fit():
    module = module_of(IVECTOR)
    with pytest.raises(ArgumentError, match=r"give ivectors of shape \(batch, 2\)"):
        module(features(2, 4))
    with pytest.raises(ArgumentError, match=r"ivectors must be \(batch, dim\) \(2, 2\).*got \(1, 2\)"):
        module(features(2, 4), torch.zeros(1, 2))


@pytest.mark.parametrize("wrong", [None, 3, "final.mdl", torch.nn.Linear(2, 2)], ids=str)
def test_what_is_no_network(wrong):
    with pytest.raises(ArgumentError, match="must be a network or an acoustic model"):
        nnet3.TorchModule(wrong)


def test_a_network_that_is_not_simple():
    with pytest.raises(NetworkError, match="simple network: an output 'output'"):
        nnet3.TorchModule(nnet3.Nnet.from_config("input-node name=in dim=2\noutput-node name=out input=in"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("output", "outputs must be a list"),
        ([], "outputs must be a list"),
        (3, "outputs must be a list"),
        ({"output"}, "outputs must be a list"),
        (["outptu"], "the network has no output 'outptu'; did you mean 'output'"),
        ([3], "the network has no output 3; it has output"),
        (["output", "something"], "the network has no output 'something'; it has output"),
    ],
    ids=str,
)
def test_outputs_that_are_not_there(wrong, message):
    with pytest.raises(ArgumentError, match=message):
        module_of(outputs=wrong)


@pytest.mark.parametrize("wrong", [0, 1.5, True, "3"])
def test_a_factor_is_a_positive_integer(wrong):
    with pytest.raises(ArgumentError, match="frame_subsampling_factor must be an integer >= 1"):
        module_of(frame_subsampling_factor=wrong)
