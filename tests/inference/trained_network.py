"""A network that has statistics and dropout, and features for it."""

from __future__ import annotations

import torch

from nnet3 import Nnet

FEATURES = torch.arange(30, dtype=torch.float32).reshape(10, 3) / 30
NORM_AND_DROPOUT = """
    input-node name=input dim=3
    component name=norm type=BatchNormComponent dim=3
    component name=drop type=DropoutComponent dim=3 dropout-proportion=0.5
    component-node name=norm component=norm input=input
    component-node name=drop component=drop input=norm
    output-node name=output input=drop
"""


def trained_network() -> Nnet:
    """Returns a network with statistics, in training mode."""
    nnet = Nnet.from_config(NORM_AND_DROPOUT)
    norm = nnet.components["norm"]
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * 3 + 1
    y, memo = norm.propagate(x)
    norm.store_stats(x, y, memo)
    return nnet
