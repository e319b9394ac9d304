"""`Nnet.to` in PyTorch's forms, numbers that are refused, pickles and deep copies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch

from nnet3 import Nnet
from nnet3.errors import ArgumentError, NetworkError

CONFIG = """
input-node name=input dim=2
component name=affine type=NaturalGradientAffineComponent input-dim=4 output-dim=3
component name=dropout type=DropoutComponent dim=3 dropout-proportion=0.3
component-node name=affine component=affine input=Append(Offset(input, -1), input)
component-node name=dropout component=dropout input=affine
output-node name=output input=dropout
"""


def _dtype(nnet: Nnet) -> torch.dtype:
    return nnet.components["affine"].parameters()["linear_params"].dtype


@pytest.mark.parametrize(
    ("convert", "dtype"),
    [
        (lambda nnet: nnet.to("cpu"), torch.float32),
        (lambda nnet: nnet.to(torch.device("cpu")), torch.float32),
        (lambda nnet: nnet.to(torch.float64), torch.float64),
        (lambda nnet: nnet.to("cpu", torch.float64), torch.float64),
        (lambda nnet: nnet.to(torch.float64, device="cpu"), torch.float64),
        (lambda nnet: nnet.to(dtype=torch.bfloat16, device="cpu"), torch.bfloat16),
        (lambda nnet: nnet.to(torch.zeros(1, dtype=torch.float64)), torch.float64),
        (lambda nnet: nnet.to(None), torch.float32),
    ],
    ids=["str", "device", "dtype", "both", "mixed", "keywords", "tensor", "none"],
)
def test_the_forms_that_pytorch_has(convert: Callable[[Nnet], Nnet], dtype: torch.dtype) -> None:
    nnet = Nnet.from_config(CONFIG)
    assert convert(nnet) is nnet
    assert _dtype(nnet) == dtype


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gpu",), "'gpu', which is not a device"),
        ((torch.int32,), r"cannot be converted to torch\.int32: its parameters are floats"),
        ((True,), "True, which is neither a device nor a dtype"),
        ((3.5,), "3.5, which is neither a device nor a dtype"),
        (("cpu", "cpu"), "two values for device"),
        (("cuda:99",), "CUDA devices are available to this PyTorch"),
    ],
)
def test_what_is_no_target(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Nnet.from_config(CONFIG).to(*arguments)


def test_what_is_no_dtype() -> None:
    with pytest.raises(ArgumentError, match="dtype='float', which is not a dtype"):
        Nnet.from_config(CONFIG).to(dtype="float")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"two values for dtype: torch\.float64 and torch\.float32"):
        Nnet.from_config(CONFIG).to(torch.float32, dtype=torch.float64)


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -1, "fast", True, None, torch.zeros(2)])
def test_a_learning_rate_that_cannot_be_meant_is_refused(rate: object) -> None:
    nnet = Nnet.from_config(CONFIG)
    before = nnet.info()
    with pytest.raises(ArgumentError, match="a learning rate must be"):
        nnet.set_learning_rate(rate)  # type: ignore[arg-type]
    assert nnet.info() == before


@pytest.mark.parametrize("scale", [float("nan"), float("-inf"), "2"])
def test_a_scale_that_cannot_be_meant_is_refused(scale: object) -> None:
    nnet = Nnet.from_config(CONFIG)
    before = nnet.info()
    with pytest.raises(ArgumentError, match="a scale must be"):
        nnet.scale_(scale)  # type: ignore[arg-type]
    assert nnet.info() == before


@pytest.mark.parametrize("number", [0.25, np.float32(0.25), np.array(0.25), torch.tensor(0.25)])
def test_numbers_of_all_kinds_are_numbers(number: float) -> None:
    nnet = Nnet.from_config(CONFIG)
    nnet.set_learning_rate(number)
    assert nnet.components["affine"].learning_rate == 0.25


@pytest.mark.parametrize(
    "twin_of", [copy.deepcopy, lambda nnet: pickle.loads(pickle.dumps(nnet))], ids=["copy", "pickle"]
)
def test_copies_and_pickles_are_independent_and_equal(twin_of: Callable[[Nnet], Nnet]) -> None:
    nnet = Nnet.from_config(CONFIG)
    nnet.seed_random(7)
    assert nnet.left_context == 1
    twin = twin_of(nnet)
    assert twin.info() == nnet.info()
    x = torch.ones(40, 3)
    first, second = (net.components["dropout"].propagate(x)[0] for net in (nnet, twin))
    assert torch.equal(first, second)
    twin.scale_(2.0)
    assert twin.info() != nnet.info()
    twin.apply_config("output-node name=output input=Offset(dropout, -2)")
    assert (nnet.left_context, twin.left_context) == (1, 3)


def test_a_node_that_is_not_there() -> None:
    nnet = Nnet.from_config(CONFIG)
    with pytest.raises(NetworkError, match="no node 'afine'; did you mean 'affine'"):
        nnet.node_dim("afine")
    with pytest.raises(ArgumentError, match="by its name, a str, got 3"):
        nnet.node_dim(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("twin_of", [Nnet.copy, Nnet.gradient_copy, Nnet.in_test_mode])
def test_copies_have_warnings_of_their_own(twin_of: Callable[[Nnet], Nnet]) -> None:
    nnet = Nnet.from_config("input-node name=input dim=1\noutput-node name=output input=input")
    nnet.warnings.append("first")
    twin = twin_of(nnet)
    twin.warnings.append("second")
    assert nnet.warnings == ["first"]
    assert twin.warnings == ["first", "second"]


def test_scaling_by_zero_ends_what_is_not_finite() -> None:
    nnet = Nnet.from_config(CONFIG)
    nnet.components["affine"].parameters()["linear_params"][0, 0] = float("nan")
    nnet.scale_(0.0)
    assert not any(tensor.any() for tensor in nnet.components["affine"].parameters().values())
