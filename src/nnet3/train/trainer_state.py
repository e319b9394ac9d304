"""The trainer's state as named tensors: what it takes to continue a run to the same bits."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from nnet3.components.natural_gradient import NaturalGradientState
from nnet3.errors import TrainingError
from nnet3.nnet import Nnet
from nnet3.train.running_state import natural_gradients, parameters, statistics
from nnet3.train.training_log import TrainingLog

_RATES = ("learning_rate", "learning_rate_factor", "max_change", "l2_regularize")


def write_state(nnet: Nnet, delta: Nnet, counters: dict[str, int], log: TrainingLog) -> dict[str, Tensor]:
    """Returns all tensors by name: `trainer.COUNTER`, `nnet.statistics.*`, `delta.statistics.*`,
    `delta.parameters.COMPONENT.NAME`, `delta.rates.COMPONENT`, `natural_gradient.COMPONENT.NAME.*`, `log.*`.
    """
    state = {f"trainer.{name}": torch.tensor(value, dtype=torch.int64) for name, value in counters.items()}
    for what, net in (("nnet", nnet), ("delta", delta)):
        state |= {f"{what}.statistics.{name}": each.copy() for name, each in statistics(net).items()}
    state |= {f"delta.parameters.{name}": tensor.clone() for name, tensor in parameters(delta).items()}
    for name, component in delta.components.items():
        if component.updatable is not None:
            rates = [getattr(component.updatable, rate) for rate in _RATES]
            state[f"delta.rates.{name}"] = torch.tensor(rates, dtype=torch.float64)
    for name, estimate in natural_gradients(delta).items():
        learnt = estimate.state()
        numbers = torch.tensor([learnt.calls, learnt.rank, learnt.rho], dtype=torch.float64)
        for part, tensor in (("numbers", numbers), ("d", learnt.d), ("w", learnt.w)):
            state[f"natural_gradient.{name}.{part}"] = tensor.clone()
    return state | {f"log.{name}": tensor for name, tensor in log.state().items()}


def read_state(
    state: dict[str, Tensor], nnet: Nnet, delta: Nnet, counters: Iterable[str], log: TrainingLog
) -> dict[str, int]:
    """Sets all from a state; returns the counters. Raises TrainingError, and changes nothing, for another network."""
    _check(state, write_state(nnet, delta, dict.fromkeys(counters, 0), log))
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
        numbers, d, w = (state[f"natural_gradient.{name}.{part}"].clone() for part in ("numbers", "d", "w"))
        calls, rank, rho = numbers.tolist()
        estimate.load_state(NaturalGradientState(int(calls), int(rank), rho, d, w))
    log.load_state({name.removeprefix("log."): value for name, value in state.items() if name.startswith("log.")})
    return {name: int(state[f"trainer.{name}"]) for name in counters}


def _check(state: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    names = {name for name in expected if not name.startswith("log.")} | {"log.updates"}
    given = {name for name in state if not name.startswith("log.")} | ({"log.updates"} & state.keys())
    for what, differing in (("lacks", names - given), ("has, unlike this network,", given - names)):
        if differing:
            raise TrainingError(f"the state of the trainer {what} {len(differing)} entries, such as '{min(differing)}'")
    for name in sorted(names):
        if name.startswith("delta.parameters.") and state[name].shape != expected[name].shape:
            sizes = f"{tuple(state[name].shape)}, here it is {tuple(expected[name].shape)}"
            raise TrainingError(f"the state of the trainer is of another network: '{name}' was {sizes}")
