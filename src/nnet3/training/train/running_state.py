"""The state of networks in training besides parameters: statistics and natural-gradient estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from nnet3.errors import TrainingError
from nnet3.model.components.base import Component
from nnet3.model.components.natural_gradient import NaturalGradientState, OnlineNaturalGradient
from nnet3.model.components.row_sums import RowReduction
from nnet3.model.nnet import Nnet


class HasComponents(Protocol):
    """A network, or the components of one."""

    @property
    def components(self) -> Mapping[str, Component]:
        """The components by name."""


class StoredStatistic:
    """One statistic of a component: a float64 tensor, or a number."""

    def __init__(self, holder: Any, name: str) -> None:
        self._holder, self._name = holder, name

    def copy(self) -> Tensor:
        """Returns its value now, float64; empty if nothing was ever stored."""
        value = getattr(self._holder, self._name)
        return value.clone() if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)

    def set(self, value: Tensor) -> None:
        """Gives the statistic a value, in its own memory."""
        now = getattr(self._holder, self._name)
        if not isinstance(now, Tensor):
            setattr(self._holder, self._name, float(value))
        elif now.shape == value.shape:
            now.copy_(value)
        else:
            setattr(self._holder, self._name, value.to(now.device, copy=True))


def statistics(nnet: HasComponents) -> dict[str, StoredStatistic]:
    """Returns all statistics by `COMPONENT.NAME`."""
    return {
        f"{name}.{prefix}{statistic}": StoredStatistic(leaf, statistic)
        for name, prefix, leaf in _leaves(nnet)
        for statistic in leaf.statistic_names
    }


def parameters(nnet: HasComponents) -> dict[str, Tensor]:
    """Returns all parameters by `COMPONENT.NAME`."""
    return {f"{c}.{name}": p for c, component in nnet.components.items() for name, p in component.parameters().items()}


def natural_gradients(nnet: HasComponents) -> dict[str, OnlineNaturalGradient]:
    """Returns all natural-gradient estimates by `COMPONENT.NAME`."""
    return {
        f"{name}.{prefix}{key}": preconditioner
        for name, prefix, leaf in _leaves(nnet)
        for key, preconditioner in leaf.natural_gradients.items()
    }


def _leaves(nnet: HasComponents) -> Iterator[tuple[str, str, Any]]:
    for name, component in nnet.components.items():
        for prefix, leaf in component.leaves():
            yield name, prefix, leaf


class KeptTensor:
    """The values of a tensor now, or of some of its rows, to go back to."""

    def __init__(self, tensor: Tensor, rows: Tensor | None = None) -> None:
        self._tensor, self._rows = tensor, rows
        self._values = tensor.clone() if rows is None else tensor[rows]

    def restore(self) -> None:
        """Gives the tensor, or its kept rows, the kept values, to the bit."""
        self._tensor[... if self._rows is None else self._rows] = self._values


class Before:
    """The state before a minibatch, to go back to if the minibatch is unusable or interrupted.

    It holds statistics, natural-gradient estimates and the buffers of the delta; parameters from when they change.
    """

    def __init__(
        self,
        statistics: Iterable[StoredStatistic],
        estimates: Iterable[OnlineNaturalGradient],
        buffers: Iterable[Tensor],
        parameters: Callable[[], Iterable[KeptTensor]],
        first: Callable[[], None] = lambda: None,
    ) -> None:
        """`parameters` gives those that the next update changes; `first` is called before all else when the state is to
        be restored.
        """
        self._first, self._parameters = first, parameters
        self._statistics = [(each, each.copy()) for each in statistics]
        self._estimates = [(each, each.state(), each.frozen) for each in estimates]
        self._kept = [KeptTensor(buffer) for buffer in buffers]

    def keep_parameters(self) -> None:
        """Copies the parameters that the next update changes, as they are now."""
        self._kept.extend(self._parameters())

    def restore(self) -> None:
        """Gives statistics, estimates, buffers and copied parameters their values of before, to the bit."""
        self._first()
        for statistic, value in self._statistics:
            statistic.set(value)
        for estimate, state, frozen in self._estimates:
            estimate.load_state(state)
            estimate.frozen = frozen
        for kept in reversed(self._kept):
            kept.restore()


def estimate_tensors(name: str, estimate: OnlineNaturalGradient) -> dict[str, Tensor]:
    """Returns a natural-gradient estimate as tensors (copies) whose names begin with `name`."""
    learnt = estimate.state()
    numbers = torch.tensor([learnt.calls, learnt.rank, learnt.rho], dtype=torch.float64)
    parts = (("numbers", numbers), ("d", learnt.d), ("w", learnt.w))
    return {f"{name}.{part}": tensor.clone() for part, tensor in parts}


def load_estimate(name: str, estimate: OnlineNaturalGradient, state: Mapping[str, Tensor]) -> None:
    """Goes on from what `estimate_tensors` gave."""
    numbers, d, w = (state[f"{name}.{part}"].clone() for part in ("numbers", "d", "w"))
    calls, rank, rho = numbers.tolist()
    estimate.load_state(NaturalGradientState(int(calls), int(rank), rho, d, w))


def network_state(nnet: Nnet) -> dict[str, dict[str, Tensor]]:
    """Returns copies of all parameters and statistics, by name; a model file would round statistics."""
    return {
        "parameters": {name: tensor.clone() for name, tensor in parameters(nnet).items()},
        "statistics": {name: statistic.copy() for name, statistic in statistics(nnet).items()},
    }


@torch.no_grad()
def load_network_state(nnet: Nnet, state: dict[str, dict[str, Tensor]]) -> None:
    """Goes back to that state; parameters stay the same tensors. Raises TrainingError for another network's."""
    check_same_network(parameters(nnet), statistics(nnet), state)
    for name, parameter in parameters(nnet).items():
        parameter.copy_(state["parameters"][name])
    nnet.zero_stats()  # what is derived from old statistics is forgotten too
    for name, statistic in statistics(nnet).items():
        statistic.set(state["statistics"][name])


def check_same_network(
    parameters: Mapping[str, Tensor], statistics: Mapping[str, object], state: dict[str, dict[str, Tensor]]
) -> None:
    """Raises TrainingError for a state with other names, shapes or dtypes of parameters and statistics."""
    ours = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in parameters.items()}
    theirs = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in state["parameters"].items()}
    if ours != theirs or statistics.keys() != state["statistics"].keys():
        different = [name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)]
        what = f"parameters '{min(different)}'" if different else "statistics"
        if different and min(different) in ours.keys() & theirs.keys():
            what += f": {_described(theirs[min(different)])} there, {_described(ours[min(different)])} here"
        raise TrainingError(f"the checkpoint is of another network: it differs in {what}")


def _described(kind: tuple[tuple[int, ...], torch.dtype]) -> str:
    return f"{' x '.join(map(str, kind[0]))} of {kind[1]}".replace("torch.", "")


def add_up_statistics(nnet: HasComponents, before: dict[str, Tensor], reduction: RowReduction) -> None:
    """Sets the statistics to values `before` (by name; equal in all processes) plus all processes' additions."""
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
