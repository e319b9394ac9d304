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


@pytest.mark.parametrize(
    ("descriptor", "message"),
    [
        ("Offset(input, 1000)", "no output is computable from 640 frames of input"),
        ("Round(input, 1001)", "repeats after 1001 frames only"),
    ],
)
def test_a_context_that_cannot_be_found(descriptor: str, message: str) -> None:
    nnet = Nnet.from_config(f"input-node name=input dim=1\noutput-node name=output input={descriptor}")
    with pytest.raises(NetworkError, match=message):
        _ = nnet.left_context
