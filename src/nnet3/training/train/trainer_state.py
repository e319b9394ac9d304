"""The trainer's state as named tensors: all that a run needs to continue to the same bits."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.errors import TrainingError
from nnet3.model.nnet import Nnet
from nnet3.training.train.running_state import (
    estimate_tensors,
    load_estimate,
    natural_gradients,
    parameters,
    statistics,
)

_RATES = ("learning_rate", "learning_rate_factor", "max_change", "l2_regularize")


def write_state(nnet: Nnet, delta: Nnet) -> dict[str, Tensor]:
    """Returns all tensors by name: `nnet.statistics.*`, `delta.statistics.*`, `delta.parameters.COMPONENT.NAME`,
    `delta.rates.COMPONENT`, `natural_gradient.COMPONENT.NAME.*`.
    """
    state: dict[str, Tensor] = {}
    for what, net in (("nnet", nnet), ("delta", delta)):
        state |= {f"{what}.statistics.{name}": each.copy() for name, each in statistics(net).items()}
    state |= {f"delta.parameters.{name}": tensor.clone() for name, tensor in parameters(delta).items()}
    for name, component in delta.components.items():
        if component.updatable is not None:
            rates = [getattr(component.updatable, rate) for rate in _RATES]
            state[f"delta.rates.{name}"] = torch.tensor(rates, dtype=torch.float64)
    for name, estimate in natural_gradients(delta).items():
        state |= estimate_tensors(f"natural_gradient.{name}", estimate)
    return state


def read_state(state: dict[str, Tensor], nnet: Nnet, delta: Nnet) -> None:
    """Sets all from a state, whose names and sizes are those of `write_state`."""
    for what, net in (("nnet", nnet), ("delta", delta)):
        for name, statistic in statistics(net).items():
            statistic.set(state[f"{what}.statistics.{name}"])
    for name, parameter in parameters(delta).items():
        parameter.copy_(state[f"delta.parameters.{name}"])
    for name, component in delta.components.items():
        if component.updatable is not None:
            for rate, value in zip(_RATES, state[f"delta.rates.{name}"].tolist(), strict=True):
                setattr(component.updatable, rate, value)
    for name, estimate in natural_gradients(delta).items():
        load_estimate(f"natural_gradient.{name}", estimate, state)


def check_state(state: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Raises TrainingError for the state of another network than that which gives `expected`."""
    names = {name for name in expected if not name.startswith("log.")} | {"log.updates"}
    given = {name for name in state if not name.startswith("log.")} | ({"log.updates"} & state.keys())
    for what, differing in (("lacks", names - given), ("has, unlike this network,", given - names)):
        if differing:
            raise TrainingError(f"the state of the trainer {what} {len(differing)} entries, such as '{min(differing)}'")
    for name in sorted(names):
        if name.startswith("delta.parameters.") and state[name].shape != expected[name].shape:
            sizes = f"{tuple(state[name].shape)}, here it is {tuple(expected[name].shape)}"
            raise TrainingError(f"the state of the trainer is of another network: '{name}' was {sizes}")
