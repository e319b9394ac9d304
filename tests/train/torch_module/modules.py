"""Modules of networks."""

from __future__ import annotations

import nnet3
from tests.train.torch_module.networks import TDNN, network


def module_of(
    config: str = TDNN, *, frame_subsampling_factor: int = 1, outputs: list[str] | None = None
) -> nnet3.TorchModule:
    return nnet3.TorchModule(network(config), frame_subsampling_factor=frame_subsampling_factor, outputs=outputs)
