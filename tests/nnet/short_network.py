"""Networks from a short form of config lines, with batch-norm statistics as after training."""

from __future__ import annotations

import re

import numpy as np
import torch

from nnet3 import Nnet
from nnet3.model.components.batch_norm import BatchNormComponent


def short_network(lines: str) -> Nnet:
    """A network in float64 from lines `NODE TYPE KEYS < DESCRIPTOR`, the last of which is the output.

    `4->3` stands for `input-dim=4 output-dim=3`, and `NODE = COMPONENT < DESCRIPTOR` uses a component again.
    """
    config = ["input-node name=input dim=4"]
    for line in lines.strip().splitlines():
        component, descriptor = line.split(" < ")
        name, type_name, *keys = component.split()
        if type_name != "=":
            dims = re.sub(r"(\d+)->(\d+)", r"input-dim=\1 output-dim=\2", " ".join(keys))
            config.append(f"component name={name} type={type_name}Component {dims}")
        used = keys[0] if type_name == "=" else name
        config.append(f"component-node name={name} component={used} input={descriptor}")
    nnet = Nnet.from_config("\n".join([*config, f"output-node name=output input={name}"]))
    add_statistics(nnet)
    return nnet.to(dtype=torch.float64)


def add_statistics(nnet: Nnet) -> None:
    """Give batch-norm components random statistics."""
    rng = np.random.default_rng(0)
    for component in nnet.components.values():
        if isinstance(component, BatchNormComponent):
            mean, variance = rng.standard_normal(component.block_dim), rng.uniform(0.2, 3.0, component.block_dim)
            component.count = 10.0
            component.stats_sum = torch.from_numpy(10.0 * mean)
            component.stats_sumsq = torch.from_numpy(10.0 * (variance + mean**2))
