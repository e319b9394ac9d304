"""The state of networks in training besides parameters: statistics and natural-gradient estimates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nnet3.components.natural_gradient import NaturalGradientState, OnlineNaturalGradient
from nnet3.components.row_sums import RowReduction
from nnet3.nnet import Nnet


class StoredStatistic:
    """One statistic of a component: a float64 tensor, or a number."""

    def __init__(self, holder: Any, name: str) -> None:
        self._holder, self._name = holder, name

    def copy(self) -> Tensor:
        """Returns its value now, float64; empty if nothing was ever stored."""
        value = getattr(self._holder, self._name)
        return value.clone() if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)

    def set(self, value: Tensor) -> None:
        """Give it this value, in its own memory."""
        now = getattr(self._holder, self._name)
        if not isinstance(now, Tensor):
            setattr(self._holder, self._name, float(value))
        elif now.shape == value.shape:
            now.copy_(value)
        else:
            setattr(self._holder, self._name, value.to(now.device, copy=True))


def device_of(nnet: Nnet) -> torch.device:
    """Returns the device of a network's parameters; the CPU if it has none."""
    return next((tensor.device for tensor in parameters(nnet).values()), torch.device("cpu"))


def statistics(nnet: Nnet) -> dict[str, StoredStatistic]:
    """Returns all statistics by `COMPONENT.NAME`."""
    return {
        f"{name}.{prefix}{statistic}": StoredStatistic(leaf, statistic)
        for name, prefix, leaf in _leaves(nnet)
        for statistic in leaf.statistic_names
    }


def parameters(nnet: Nnet) -> dict[str, Tensor]:
    """Returns all parameters by `COMPONENT.NAME`."""
    return {f"{c}.{name}": p for c, component in nnet.components.items() for name, p in component.parameters().items()}


def natural_gradients(nnet: Nnet) -> dict[str, OnlineNaturalGradient]:
    """Returns all natural-gradient estimates by `COMPONENT.NAME`."""
    return {
        f"{name}.{prefix}{key}": preconditioner
        for name, prefix, leaf in _leaves(nnet)
        for key, preconditioner in leaf.natural_gradients.items()
    }


def _leaves(nnet: Nnet) -> Iterator[tuple[str, str, Any]]:
    for name, component in nnet.components.items():
        for prefix, leaf in component.leaves():
            yield name, prefix, leaf


class Before:
    """The state before a minibatch, to go back to if the minibatch turns out to be unusable.

    It holds the statistics of the model and the natural-gradient estimates of the delta; all else of the delta unless
    it is zero; the model's parameters only if they change before the minibatch is known to be usable.
    """

    def __init__(self, nnet: Nnet, delta: Nnet, *, delta_is_zero: bool, keep_parameters: bool) -> None:
        self._nnet, self._delta = nnet, delta
        kept = [nnet] if delta_is_zero else [nnet, delta]
        self._statistics = [(each, each.copy()) for net in kept for each in statistics(net).values()]
        self._estimates: list[tuple[OnlineNaturalGradient, NaturalGradientState]] = [
            (each, each.state()) for each in natural_gradients(delta).values()
        ]
        changed = ([nnet] if keep_parameters else []) + ([] if delta_is_zero else [delta])
        self._buffers = [(buffer, buffer.clone()) for net in changed for buffer in net.flat_parameters()]
        self._delta_is_zero = delta_is_zero

    def restore(self) -> None:
        """Go back, to the bit."""
        if self._delta_is_zero:
            self._delta.scale_(0.0)
        for statistic, value in self._statistics:
            statistic.set(value)
        for estimate, state in self._estimates:
            estimate.load_state(state)
        for buffer, values in self._buffers:
            buffer.copy_(values)


def add_up_statistics(nnet: Nnet, before: dict[str, Tensor], reduction: RowReduction) -> None:
    """Set the statistics to those `before` (by name; the same in all processes) plus what all processes added."""
    found = statistics(nnet)
    added = {name: statistic.copy() for name, statistic in found.items()}
    for name, value in before.items():
        if value.shape == added[name].shape:
            added[name] -= value
    reduction.sum_(list(added.values()))
    for name, statistic in found.items():
        start = before.get(name)
        same = start is not None and start.shape == added[name].shape
        statistic.set(added[name] + start if same and start is not None else added[name])
