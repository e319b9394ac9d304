"""Batches of sequences of several lengths."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3.errors import ArgumentError
from tests.train.torch_module.modules import module_of
from tests.train.torch_module.networks import ALL, IVECTOR, features

# ---- frames ----


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("config", ALL.values(), ids=ALL)
@pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics")
def test_rows_beyond_the_lengths_have_no_influence(config, training):
    ivectors = [torch.ones(2, 2)] if config is IVECTOR else []
    results = []
    for beyond in (0.0, float("nan")):
        module = module_of(config).train(training)
        x = features(2, 6)
        x[1, 4:] = beyond
        outputs = module(x.requires_grad_(), *ivectors, lengths=np.array([6, 4]))
        outputs = list(outputs.values()) if isinstance(outputs, dict) else [outputs]
        sum(output.square().sum() for output in outputs).backward()
        assert not x.grad[1, 4:].any()
        statistics = [buffer.clone() for buffer in module.buffers()]
        results.append([*outputs, x.grad, *(parameter.grad for parameter in module.parameters()), *statistics])
    torch.testing.assert_close(results[0], results[1], atol=0, rtol=0)


def test_output_lengths_are_rounded_up():
    module = module_of(frame_subsampling_factor=np.int64(3))
    assert module.output_lengths(torch.tensor([1, 3, 4])).tolist() == [1, 1, 2]
    assert module.output_lengths([[6], [7]]).tolist() == [[2], [3]]
    with pytest.raises(ArgumentError, match="frames of at least 0, got -4"):
        module.output_lengths(torch.tensor([3, -4]))


# ---- parameters ----


# ---- modes ----


# ---- copies ----


# ---- dtypes ----


# ---- files ----


# ---- errors ----
