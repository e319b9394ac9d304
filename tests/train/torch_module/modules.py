"""Modules of networks."""

from __future__ import annotations

import nnet3
from tests.train.torch_module.networks import TDNN, network


def module_of(config: str = TDNN, **options: object) -> nnet3.TorchModule:
    return nnet3.TorchModule(network(config), **options)
