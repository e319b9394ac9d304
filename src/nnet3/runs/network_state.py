"""Parameters and statistics of a network to the last bit: a model file rounds statistics."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.errors import TrainingError
from nnet3.nnet import Nnet
from nnet3.train.running_state import statistics


def network_state(nnet: Nnet) -> dict[str, dict[str, Tensor]]:
    """Copies of all parameters and statistics, by name."""
    return {
        "parameters": {name: tensor.clone() for name, tensor in _parameters(nnet).items()},
        "statistics": {name: statistic.copy() for name, statistic in statistics(nnet).items()},
    }


@torch.no_grad()
def load_network_state(nnet: Nnet, state: dict[str, dict[str, Tensor]]) -> None:
    """Go back to there. Parameters stay the same tensors. Raises TrainingError for the state of another network."""
    shapes = {name: tuple(tensor.shape) for name, tensor in _parameters(nnet).items()}
    theirs = {name: tuple(tensor.shape) for name, tensor in state["parameters"].items()}
    if shapes != theirs or statistics(nnet).keys() != state["statistics"].keys():
        different = [name for name in {*shapes, *theirs} if shapes.get(name) != theirs.get(name)]
        what = f"parameters '{min(different)}'" if different else "statistics"
        raise TrainingError(f"the checkpoint is of another network: it differs in {what}")
    for name, parameter in _parameters(nnet).items():
        parameter.copy_(state["parameters"][name])
    nnet.zero_stats()  # what is derived from old statistics is forgotten too
    for name, statistic in statistics(nnet).items():
        statistic.set(state["statistics"][name])


def _parameters(nnet: Nnet) -> dict[str, Tensor]:
    return {
        f"{name}.{key}": tensor
        for name, component in nnet.components.items()
        for key, tensor in component.parameters().items()
    }
