"""Compiled programs of a module by what they are for, and the computers that run them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nnet3.compiler import ComputationCache, ComputationRequest
from nnet3.components import Component, Properties
from nnet3.compute import NnetComputer
from nnet3.train.torch_module.collector import GradientCollector
from nnet3.train.torch_module.layout import Layout, specifications
from nnet3.train.torch_module.views import NetworkView

_MOST_PROGRAMS = 32
_MOST_IDLE = 8


class Needs(NamedTuple):
    """What a forward run must be able to do later: of which parameters (by number) and inputs it gives derivatives."""

    parameters: tuple[int, ...] = ()
    features: bool = False
    ivectors: bool = False

    @property
    def backward(self) -> bool:
        return bool(self.parameters) or self.features or self.ivectors


@dataclass(frozen=True)
class _Kernels:
    """A network's components without its fingerprint: a program looks itself whether they have changed."""

    components: Mapping[str, Component]


@dataclass
class Worker:
    """A computer and what it collects gradients in."""

    computer: NnetComputer
    collector: GradientCollector


@dataclass
class Program:
    """A network as it is run, the layout of its batch, and the computers that have nothing to do."""

    view: NetworkView
    layout: Layout
    needs: Needs
    output_names: list[str]
    wanted: Sequence[Tensor]
    cache: ComputationCache
    device: torch.device
    idle: list[Worker] = field(default_factory=list)

    def request(self) -> ComputationRequest:
        needs = self.needs
        inputs, outputs = specifications(
            self.view.nnet,
            self.layout,
            self.output_names,
            features=needs.features,
            ivectors=needs.ivectors,
            outputs=needs.backward,
        )
        has_statistics = any(_keeps_statistics(c.view) for c in self.view.components.values())
        return ComputationRequest(inputs, outputs, bool(needs.parameters), has_statistics)

    def acquire(self) -> Worker:
        """A computer for one run forward and if wanted backward."""
        if self.idle:
            return self.idle.pop()
        collector = GradientCollector(self.view, self.wanted)
        computation = self.cache.compile(self.view.nnet, self.request())
        computer = NnetComputer(
            computation, _Kernels(self.view.nnet.components), collector, self.device, check_finite=False
        )
        collector.expect({kernel.name for kernel in computer.plan.kernels if kernel.is_updated})
        return Worker(computer, collector)

    def give_back(self, worker: Worker) -> None:
        worker.computer.reset()
        if len(self.idle) < _MOST_IDLE:
            self.idle.append(worker)

    def forward(self, inputs: dict[str, Tensor], *, statistics: bool = True) -> Worker:
        """Run forward. If settings of the network that it was compiled for have changed, it is compiled again."""
        if self.view.follow():
            self.idle.clear()
        worker = self.acquire()
        worker.collector.take_statistics(statistics)
        for name, matrix in inputs.items():
            worker.computer.accept_input(name, matrix)
        worker.computer.run()
        return worker


def _keeps_statistics(component: Component) -> bool:
    return component.has_running_statistics and bool(component.properties & Properties.STORES_STATS)


class Programs:
    """The programs used last."""

    def __init__(self) -> None:
        self._programs: OrderedDict[Any, Program] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], Program]) -> Program:
        """The program of this key, made if there is none."""
        with self._lock:
            found = self._programs.get(key)
            if found is None:
                found = self._programs[key] = make()
                if len(self._programs) > _MOST_PROGRAMS:
                    self._programs.popitem(last=False)
            self._programs.move_to_end(key)
            return found

    def clear(self) -> None:
        self._programs.clear()
