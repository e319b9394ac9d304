"""The type in which networks without parameters compute: that which `to` gave them last, else their inputs'."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import nnet3
from nnet3 import ComputationRequest, IoSpecification, Nnet, NnetComputer
from tests.seeds import RANDOM

SINGLE, DOUBLE = torch.float32, torch.float64
FEATURES = torch.from_numpy(RANDOM.standard_normal((30, 3)))
CONFIG = """
    input-node name=input dim=3
    component name=tanh type=TanhComponent dim=3
    component-node name=tanh component=tanh input=Sum(input, Offset(input, -1))
    output-node name=output input=tanh
"""


def _by_computer(nnet: Nnet, features: Tensor) -> Tensor:
    inputs, outputs = [(0, time) for time in range(-1, 30)], [(0, time) for time in range(30)]
    request = ComputationRequest([IoSpecification("input", inputs)], [IoSpecification("output", outputs)])
    computer = NnetComputer(nnet3.compile(nnet, request), nnet)
    return computer.compute({"input": torch.cat([features[:1], features])})["output"]


def _by_batch(nnet: Nnet, features: Tensor) -> Tensor:
    [(_, rows)] = nnet3.BatchComputer(nnet).compute([("a", features, None)])
    return rows


def _by_stream(nnet: Nnet, features: Tensor) -> Tensor:
    return nnet3.StreamComputer(nnet, frame_subsampling_factor=1).compute(features)


WAYS = [_by_computer, lambda nnet, features: nnet.compute(features), _by_batch]
COPIES = [lambda nnet: nnet, Nnet.copy, copy.deepcopy, lambda nnet: pickle.loads(pickle.dumps(nnet))]


@pytest.mark.parametrize("way", [*WAYS, _by_stream], ids=["computer", "compute", "batch", "stream"])
@pytest.mark.parametrize("copied", COPIES, ids=["itself", "copy", "deepcopy", "pickle"])
def test_what_to_gave_decides(way: Callable[..., Tensor], copied: Callable[[Nnet], Nnet]) -> None:
    nnet = Nnet.from_config(CONFIG)
    exact = torch.tanh(FEATURES + torch.cat([FEATURES[:1], FEATURES[:-1]]))
    for given in (DOUBLE, SINGLE, DOUBLE):
        nnet = copied(nnet.to(given))
        for inputs in (SINGLE, DOUBLE):
            rows = way(nnet, FEATURES.to(inputs))
            assert rows.dtype == given == nnet.dtype
        if given == DOUBLE:
            np.testing.assert_allclose(rows, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("way", WAYS, ids=["computer", "compute", "batch"])
@pytest.mark.parametrize("inputs", [SINGLE, DOUBLE])
def test_where_nothing_is_given_inputs_decide(way: Callable[..., Tensor], inputs: torch.dtype) -> None:
    assert way(Nnet.from_config(CONFIG), FEATURES.to(inputs)).dtype == inputs


def test_streams_are_of_single_precision_where_nothing_is_given() -> None:
    assert _by_stream(Nnet.from_config(CONFIG), FEATURES).dtype == SINGLE
