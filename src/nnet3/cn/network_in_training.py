"""NetworkInTraining: a computational network and its next step, as the trainer sees them
(`nnet3.training.train.trainable`).

The criterion is made smaller, so a step is minus the rate times the gradient of the criterion's mean over samples (1.1,
1.2). The gradient stays in the network's memory; without momentum the gradient itself is the delta, times a factor, and
nothing is copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nnet3.base.options.network_training import NetworkTrainingOptions
from nnet3.cn.differentiation import Counted
from nnet3.cn.natural_gradient import NaturalGradients
from nnet3.cn.network import Network
from nnet3.cn.node import Node
from nnet3.cn.not_finite import NotFiniteError, check_finite
from nnet3.cn.options_by_name import OptionsByName
from nnet3.cn.shared_minibatch import share_of, sum_gradients
from nnet3.errors import TrainingError, check_kind
from nnet3.model.components.base import Component
from nnet3.model.components.row_sums import RowReduction, summed_by
from nnet3.training.train.objectives import ObjectiveStats
from nnet3.training.train.running_state import (
    Before,
    KeptTensor,
    StoredStatistic,
    add_up_statistics,
    check_same_network,
    estimate_tensors,
    load_estimate,
    statistics,
)
from nnet3.training.train.trainable import Trainable, UnusableError
from nnet3.training.train.update import Update, within_max_change

Batch = Mapping[str, Any]
CRITERION = "criterion"


@dataclass
class PartOfDelta:
    """The next step of a parameter: `factor` times a tensor of the parameter's shape, which may be sparse."""

    parameter: Tensor
    tensor: Tensor
    factor: float

    @property
    def square(self) -> float:
        """The squared norm."""
        values = self.tensor.coalesce().values() if self.tensor.is_sparse else self.tensor
        return (self.factor * float(torch.linalg.vector_norm(values, dtype=torch.float64))) ** 2

    def kept(self) -> KeptTensor:
        """Returns the values of the parameter that the step changes."""
        return KeptTensor(self.parameter, self.tensor.coalesce().indices()[0] if self.tensor.is_sparse else None)


class NetworkInTraining(Trainable[Batch]):
    """`metrics`: nodes that are watched beside the criterion, by name."""

    def __init__(
        self,
        network: Network,
        options: NetworkTrainingOptions,
        by_name: OptionsByName,
        metrics: Mapping[str, Node] | None = None,
        reduction: RowReduction | None = None,
    ) -> None:
        """`reduction` sums over processes, each with separate sequences of a minibatch; all end with equal values."""
        check_learns(network)
        self.network, self.options, self.by_name, self.reduction = network, options, by_name, reduction
        self.metrics = dict(metrics or {})
        self.natural = NaturalGradients(
            network, by_name.has_natural_gradient if by_name.has_natural_gradients else None
        )
        self._rate = 0.0
        self._delta: dict[str, PartOfDelta] = {}
        self._buffers: dict[str, Tensor] = {}  # of a delta that is kept, by parameter

    @property
    def components(self) -> dict[str, Component]:
        """The components of component nodes, by the names of these."""
        network = self.network
        return {network.names[node]: operation.component for node, operation in network._nodes.components}

    # ---- the trainer's questions ----

    def key(self, minibatch: Batch) -> str:
        return ""

    def set_learning_rate(self, rate: float) -> None:
        self._rate = rate

    def before(self) -> Before:
        estimates, buffers = self.natural.estimates().values(), self._buffers.values()
        return Before(
            statistics(self).values(),
            estimates,
            buffers,
            parameters=lambda: map(PartOfDelta.kept, self._delta.values()),
            first=self._delta.clear,
        )

    def begin(self, minibatch: Batch) -> int:
        """Returns 1: the network learns a mean, to which penalties are added once."""
        check_kind(minibatch, Mapping, "a minibatch", "a mapping from names of inputs to their values")
        return 1

    def add_gradient(self, minibatch: Batch, seed: int) -> dict[str, ObjectiveStats]:
        stats, tensors = self.compute_gradient(minibatch, seed), self.network.tensors()
        for name, parameter in tensors.items():
            assert parameter.grad is not None
            factor = -self._rate * self.by_name.of(name).learning_rate_factor
            if self.options.momentum:
                self._buffer(name, parameter).add_(parameter.grad, alpha=factor)
            else:
                self._delta[name] = PartOfDelta(parameter, parameter.grad, factor)
        if self.options.momentum:
            self._delta = {name: PartOfDelta(tensors[name], self._buffers[name], 1.0) for name in tensors}
        return stats

    def compute_gradient(self, minibatch: Batch, seed: int, *, is_checked: bool = True) -> dict[str, ObjectiveStats]:
        """Leaves the gradient per sample, clipped, in the network's memory; returns the criterion and the metrics.

        Raises NotFiniteError, or UnusableError if minibatches may be skipped, for numbers that are not finite, if
        `is_checked`.
        """
        own = None if self.reduction is None else share_of(self.network, minibatch, self.reduction)
        if self.reduction is None or own is None:  # too few sequences to share: each process does the same
            counted = self._counted(minibatch, seed, None, is_checked=is_checked)
            if self.reduction is not None:
                self._take_gradients_of_first(self.reduction)
        else:
            seed += self.reduction.rank * 1_000_000_007  # no two processes drop the same units
            before = {name: statistic.copy() for name, statistic in statistics(self).items()}
            counted = self._counted(own, seed, self.reduction, is_checked=is_checked)
            sum_gradients(self._gradients(), self.reduction)
            add_up_statistics(self, before, self.reduction)
        if self.options.clip_norm:
            self._clip()
        return self.stats(counted)

    def _counted(
        self, minibatch: Batch, seed: int, reduction: RowReduction | None, *, is_checked: bool
    ) -> dict[str, Counted]:
        """Leaves this process's share of the gradient; returns the numbers of all processes of the reduction."""
        self.network.seed_random(seed)
        add_up = partial(_sums, reduction)
        with summed_by(reduction), self.natural.collecting():
            counted = self.network.backward_per_sample(minibatch, self.metrics, add_up=add_up)
        if is_checked:
            self._check(minibatch, counted[CRITERION].total, add_up)
        if reduction is None:
            return counted
        numbers = torch.tensor([[each.total, each.count] for each in counted.values()], dtype=torch.float64)
        reduction.sum_([numbers])
        return {name: Counted(row[0], int(row[1])) for name, row in zip(counted, numbers.tolist(), strict=True)}

    def _check(self, minibatch: Batch, value: float, add_up: Callable[[list[int]], list[int]]) -> None:
        """Raises in all processes if the criterion or the gradient of one is not finite."""
        complaint = None
        try:
            check_finite(self.network, minibatch, value)
        except NotFiniteError as error:
            complaint = str(error)
        if add_up([complaint is not None])[0]:
            complaint = complaint or "another process found something that is not finite"
            raise NotFiniteError(complaint) if self.options.max_skipped == 0 else UnusableError(complaint)

    def _gradients(self) -> list[Tensor]:
        return [tensor.grad for tensor in self.network.tensors().values() if tensor.grad is not None]

    def _take_gradients_of_first(self, reduction: RowReduction) -> None:
        """Makes equally computed gradients of all processes equal to the bit, on any machines."""
        for gradient in self._gradients() if reduction.rank else ():
            gradient.zero_()
        sum_gradients(self._gradients(), reduction)

    @staticmethod
    def stats(counted: Mapping[str, Counted]) -> dict[str, ObjectiveStats]:
        """Sums as the trainer has them, from numbers of a minibatch: the criterion is a mean, metrics are sums."""
        criterion = counted[CRITERION]
        sums = {name: each.total for name, each in counted.items()}
        sums[CRITERION] = criterion.total * criterion.count
        return {name: ObjectiveStats(sums[name], weight=each.count) for name, each in counted.items()}

    def add_penalties(self, scale: float) -> None:
        for name, part in self._delta.items():
            factor = -self._rate * self.by_name.of(name).learning_rate_factor * scale
            if factor:
                part.tensor = self._with_penalty(name, part.parameter, part.tensor, factor / part.factor)

    def add_penalties_to_gradient(self) -> None:
        """Adds the gradients of the penalties where the network has its gradient, for an optimizer to use."""
        for name, parameter in self.network.tensors().items():
            assert parameter.grad is not None
            parameter.grad = self._with_penalty(name, parameter, parameter.grad, 1.0)

    def _with_penalty(self, name: str, parameter: Tensor, target: Tensor, factor: float) -> Tensor:
        """target += factor times the slope 2 l2 w + l1 sign(w), which is dense: a sparse target becomes dense."""
        own = self.by_name.of(name)
        if target.is_sparse and (own.l1 or own.l2):
            target = target.to_dense()
        if own.l2:
            target.add_(parameter, alpha=2.0 * own.l2 * factor)
        if own.l1:
            target.add_(parameter.sign(), alpha=own.l1 * factor)
        return target

    def update(self, max_param_change: float, *, limit: float, scale: float) -> Update:
        max_changes = {name: self.by_name.of(name).max_change for name in self._delta}
        update, factors = Update(updatable=tuple(self._delta)), dict.fromkeys(self._delta, scale)
        if max_param_change or any(max_changes.values()):
            squares = {name: part.square for name, part in self._delta.items()}
            update, factors = within_max_change(squares, max_changes, max_param_change, limit=limit, scale=scale)
        for name in factors:
            part = self._delta[name]
            part.parameter.add_(part.tensor, alpha=factors[name] * part.factor)
        return update

    def scale_delta(self, scale: float) -> None:
        self._delta.clear()
        for buffer in self._buffers.values():
            buffer.mul_(scale)

    def freeze_natural_gradient(self, frozen: bool) -> None:
        for estimate in self.natural.estimates().values():
            estimate.frozen = frozen

    def scale_statistics(self, scale: float) -> None:
        """Does nothing: the statistics of test mode are those of all minibatches."""

    def constrain(self, seed: int) -> None:
        return

    # ---- continuing ----

    def state(self) -> dict[str, Tensor]:
        state = {f"delta.parameters.{name}": buffer.clone() for name, buffer in self._all_buffers().items()}
        for name, estimate in self.natural.estimates().items():
            state |= estimate_tensors(f"natural_gradient.{name}", estimate)
        return state

    def load_state(self, state: dict[str, Tensor]) -> None:
        for name, buffer in self._all_buffers().items():
            buffer.copy_(state[f"delta.parameters.{name}"])
        for name, estimate in self.natural.estimates().items():
            load_estimate(f"natural_gradient.{name}", estimate, state)

    def _all_buffers(self) -> dict[str, Tensor]:
        """Returns the delta of all trained parameters, if kept."""
        tensors = self.network.tensors() if self.options.momentum else {}
        return {name: self._buffer(name, parameter) for name, parameter in tensors.items()}

    def contents(self) -> dict[str, Any]:
        return {
            "parameters": {name: tensor.detach().clone() for name, tensor in self._stored_tensors().items()},
            "statistics": {name: statistic.copy() for name, statistic in statistics(self).items()},
        }

    @torch.no_grad()
    def load_contents(self, contents: dict[str, Any]) -> None:
        own: dict[str, StoredStatistic] = statistics(self)
        check_same_network(self._stored_tensors(), own, contents)
        for name, tensor in self._stored_tensors().items():
            tensor.copy_(contents["parameters"][name])
        for component in self.components.values():
            component.zero_stats()
        for name, statistic in own.items():
            statistic.set(contents["statistics"][name])

    def digest(self) -> str:
        """Returns a digest: equal for equal numbers of all parameters and statistics."""
        digest = hashlib.blake2b(digest_size=8)
        for tensor in self._stored_tensors().values():
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    # ---- how it is done ----

    def _buffer(self, name: str, parameter: Tensor) -> Tensor:
        """Returns the delta that momentum keeps; dense, also of a parameter with a sparse gradient."""
        known = self._buffers.get(name)
        if known is None or (known.shape, known.dtype, known.device) != (
            parameter.shape,
            parameter.dtype,
            parameter.device,
        ):
            self._buffers[name] = known = torch.zeros_like(parameter)
        return known

    def _clip(self) -> None:
        """Shortens a gradient longer than allowed to the allowed length."""
        gradients = self._gradients()
        parts = [PartOfDelta(gradient, gradient, 1.0) for gradient in gradients]
        length = sum(part.square for part in parts) ** 0.5
        if length > self.options.clip_norm:
            for gradient in gradients:
                gradient.mul_(self.options.clip_norm / length)

    def _stored_tensors(self) -> dict[str, Tensor]:
        """Returns the memory of all parameters and statistics, frozen ones too, by name."""
        network = self.network
        stored = {network.names[node]: node.memory for node in network.stored}
        return stored | dict(network._component_tensors())


def _sums(reduction: RowReduction | None, counts: list[int]) -> list[int]:
    """Numbers of all processes together."""
    total = torch.tensor(counts, dtype=torch.float64)
    if reduction is not None:
        reduction.sum_([total])
    return [int(count) for count in total]


def check_learns(network: Network) -> None:
    """Raises TrainingError if the criterion depends on no parameter that is trained."""
    roots = tuple(network.criteria)
    if not roots or any(network._nodes.gradient_flags(roots, ())[root] for root in roots):
        return
    below = network._nodes.below(roots)
    learners = [node for node in below if node.operation.parameters() or node.is_parameter]
    frozen = [network.names[node] for node in learners if not getattr(node.operation, "constant", False)]
    shown = f"all are frozen ({', '.join(frozen)})" if frozen else "there is none"
    raise TrainingError(f"nothing learns: of the parameters on which the criterion depends, {shown}")


def found_metrics(network: Network, metrics: Iterable[Node | str] | Mapping[str, Node | str]) -> dict[str, Node]:
    """Returns the metric nodes by printed names. Raises TrainingError for a node other than 1 x 1."""
    check_kind(metrics, (Node, str, Iterable), "metrics", "a list of nodes or names")
    named = metrics if isinstance(metrics, Mapping) else {}
    for each in () if named else ([metrics] if isinstance(metrics, Node | str) else metrics):
        node = network.find(each)
        named = {**named, each if isinstance(each, str) else network.names[node]: node}
    found = {name: network.find(node) for name, node in named.items()}
    for name, node in found.items():
        if not node.shape.is_scalar or node.is_stored or node.operation.is_given:
            raise TrainingError(f"metric '{name}': expected a node of 1 x 1 that is computed, got {node.shape}")
        if name == CRITERION:
            raise TrainingError(f"the name '{CRITERION}' of a metric is that of the criterion: give it another one")
    return found
