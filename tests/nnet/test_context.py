"""Left and right context of networks that look at thousands of frames (golden networks: test_info.py)."""

from __future__ import annotations

import time

import pytest

from nnet3.errors import NetworkError
from nnet3.nnet import Nnet

X_VECTOR = """
input-node name=input dim=24
component name=extract type=StatisticsExtractionComponent input-dim=72 input-period=1 output-period=1
component name=pool type=StatisticsPoolingComponent input-dim=145 left-context=0 right-context=10000
component-node name=extract component=extract input=Append(Offset(input, -2), input, Offset(input, 2))
component-node name=pool component=pool input=extract
output-node name=output input=pool
"""


def test_many_inputs_of_one_output_take_little_time() -> None:
    """An x-vector network pools over up to 10001 frames of which any number may be missing."""
    nnet = Nnet.from_config(X_VECTOR)
    start = time.process_time()
    assert (nnet.left_context, nnet.right_context) == (0, 2)
    assert time.process_time() - start < 2.0


def test_a_context_that_cannot_be_found() -> None:
    nnet = Nnet.from_config("input-node name=input dim=1\noutput-node name=output input=Round(input, 1001)")
    with pytest.raises(NetworkError, match="repeats after 1001 frames only"):
        _ = nnet.left_context


@pytest.mark.parametrize("offset", [-700, 5000, -123456])
def test_a_long_context(offset: int) -> None:
    text = f"input-node name=input dim=1\noutput-node name=output input=Append(input, Offset(input, {offset}))"
    nnet = Nnet.from_config(text)
    assert (nnet.left_context, nnet.right_context) == (max(0, -offset), max(0, offset))
