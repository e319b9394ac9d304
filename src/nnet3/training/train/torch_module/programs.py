"""Runs a module: views of its network, by purpose, with computers for batches of all shapes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nnet3.base.options.compiling import CompileOptions
from nnet3.engine.driver import ComputationCache
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import Recent
from nnet3.engine.runtime import NnetComputer
from nnet3.engine.runtime.plan import PlannedKernel
from nnet3.engine.runtime.recent import ChangedComputers
from nnet3.inference.programs_of_lengths import ProgramsOfLengths
from nnet3.inference.running import NetworkKernels
from nnet3.model.components.base import Component, Properties
from nnet3.model.nnet import Nnet
from nnet3.model.requests import ComputationRequest
from nnet3.training.train.torch_module.collector import GradientCollector
from nnet3.training.train.torch_module.layout import BatchLayout, BatchShape, specifications
from nnet3.training.train.torch_module.replacements import ReplacementCall, replaced
from nnet3.training.train.torch_module.survey import Survey, TensorKind
from nnet3.training.train.torch_module.views import NetworkView

_MOST_PROGRAMS = 32
_MOST_IDLE = 8


class Needs(NamedTuple):
    """Parameters (by number) and inputs whose derivatives are wanted after a forward run."""

    parameters: tuple[int, ...] = ()
    features: bool = False
    ivectors: bool = False

    @property
    def backward(self) -> bool:
        return bool(self.parameters) or self.features or self.ivectors


class ProgramWorker:
    """A view of the network, the collector of its gradients, and computers for batches of several shapes.

    Computers take turns; `computer` is the computer in use.
    """

    computer: NnetComputer

    def __init__(self, program: ModuleProgram) -> None:
        network, survey, wanted = program.network, program.survey, program.needs.parameters
        wanted_indexes = {number: wanted_index for wanted_index, number in enumerate(wanted)}
        self.calls = {
            name: ReplacementCall(name, replacement, wanted_indexes, program.needs.backward)
            for name, replacement in survey.replacements.items()
        }
        wanted_index_of = {
            id(tensor): wanted_indexes[number] for tensor, number in survey.own if number in wanted_indexes
        }
        self.view = NetworkView(network, training=survey.training, reductions=survey.reductions)
        for name, call in self.calls.items():
            self.view.exchange(name, replaced(self.view.components[name].view, call))
        kinds = [program.kinds[number] for number in wanted]
        self.collector = GradientCollector(self.view, kinds, wanted_index_of, self.calls)
        self.computers, self._programs = ChangedComputers(), ProgramsOfLengths()
        self._expected: Sequence[PlannedKernel] | None = None  # of which the collector knows which are updated

    def use(self, program: ModuleProgram, shape: BatchShape) -> None:
        """Lets the computer for batches of this shape be the one in use."""

        def compiled() -> NnetComputation:
            request = program.request(self.view, shape)
            return program.cache.compile(self.view.nnet, request, program.compile_options)

        def made() -> NnetComputation:
            if shape.lengths is not None:
                return compiled()
            outputs = program.layout_of(shape).num_output_frames
            return self._programs.get(shape.num_sequences, outputs, compiled)

        def make(computation: NnetComputation) -> NnetComputer:
            kernels = NetworkKernels(self.view.nnet.components)
            return NnetComputer(computation, kernels, self.collector, program.device, check_finite=False)

        self.computer = self.computers.get(shape, made, make)
        kernels = self.computer.plan.kernels
        if kernels is not self._expected:
            self._expected = kernels
            self.collector.expect({kernel.name for kernel in kernels if kernel.is_updated})

    def forward(self, inputs: Mapping[str, Tensor], parameters: Sequence[Tensor], *, statistics: bool) -> None:
        """Runs forward, with replacements that have these parameters (by number), and running statistics taken or
        not."""
        self.collector.take_statistics(statistics)
        for call in self.calls.values():
            call.tensors, call.takes_statistics = parameters, statistics
        for name, matrix in inputs.items():
            self.computer.accept_input(name, matrix)
        try:
            self.computer.run()
        finally:
            for call in self.calls.values():
                call.tensors = ()


@dataclass
class ModuleProgram:
    """A network as a survey found it, and the workers that have nothing to do.

    `layout_of` gives the layout of a batch in which no frame is repeated but at the ends.
    """

    network: Nnet
    survey: Survey
    kinds: list[TensorKind]  # of all parameters
    layout_of: Callable[[BatchShape], BatchLayout]
    needs: Needs
    output_names: list[str]
    cache: ComputationCache
    device: torch.device
    compile_options: CompileOptions | None = None
    idle: list[ProgramWorker] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def _frozen(self) -> list[str]:
        """The components with parameters of which none is wanted."""
        wanted = {id(tensor) for tensor, number in self.survey.own if number in self.needs.parameters}
        return [
            name
            for name, component in self.network.components.items()
            if component.updatable
            and name not in self.survey.replacements
            and wanted.isdisjoint(map(id, component.parameters().values()))
        ]

    def request(self, view: NetworkView, shape: BatchShape) -> ComputationRequest:
        needs = self.needs
        inputs, outputs = specifications(
            view.nnet,
            self.layout_of(shape),
            self.output_names,
            features=needs.features,
            ivectors=needs.ivectors,
            outputs=needs.backward,
        )
        has_statistics = any(_keeps_statistics(c.view) for c in view.components.values())
        return ComputationRequest(inputs, outputs, bool(needs.parameters), has_statistics, self._frozen)

    def acquire(self, shape: BatchShape) -> ProgramWorker:
        """Returns a worker for one run forward and maybe backward, for the settings that the network has now."""
        while (worker := self._idle_worker(shape)) is not None and worker.view.follow():
            pass  # its programs may be wrong now
        worker = worker or ProgramWorker(self)
        worker.use(self, shape)
        return worker

    def _idle_worker(self, shape: BatchShape) -> ProgramWorker | None:
        """Takes an idle worker, if possible a worker with a computer for this shape."""
        with self._lock:
            if not self.idle:
                return None
            number = next((n for n, worker in enumerate(self.idle) if shape in worker.computers), -1)
            return self.idle.pop(number)

    def give_back(self, worker: ProgramWorker) -> None:
        worker.computer.reset()
        if len(self.idle) < _MOST_IDLE:
            self.idle.append(worker)

    def forward(
        self,
        shape: BatchShape,
        inputs: Mapping[str, Tensor],
        parameters: Sequence[Tensor],
        *,
        statistics: bool = True,
    ) -> ProgramWorker:
        """Runs forward; compiles again if settings of the network have changed that the program depends on."""
        worker = self.acquire(shape)
        worker.forward(inputs, parameters, statistics=statistics)
        return worker


def _keeps_statistics(component: Component) -> bool:
    return component.has_running_statistics and bool(component.properties & Properties.STORES_STATS)


class Programs:
    """The programs used last."""

    def __init__(self) -> None:
        self._programs = Recent[ModuleProgram](_MOST_PROGRAMS)
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], ModuleProgram]) -> ModuleProgram:
        """Returns the program of a key, made if missing."""
        with self._lock:
            return self._programs.get_or_make(key, make)

    def clear(self) -> None:
        self._programs.clear()
