"""Cases: networks, what is asked of them, and what comes out of each stage: programs, their plans, their numbers."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any
from unittest import mock

import torch
from torch import Tensor

import nnet3
from nnet3 import cn
from nnet3.engine.driver import CompileTask, ComputationCache
from nnet3.engine.driver.proving import PROVE, prove_made_of_others
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime import Plan, plan_of
from nnet3.options import CompileOptions
from tests.differential.subjects import poison_memory
from tests.families.networks import results_of


class Case(ABC):
    """A network and what is asked of it."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def programs(self) -> list[NnetComputation]:
        """Compiles what is asked, nothing of which is known yet."""

    @abstractmethod
    def numbers(self, programs: Sequence[NnetComputation]) -> list[Tensor]:
        """Runs programs: outputs, derivatives and gradients in float64."""

    def numbers_again(self, programs: Sequence[NnetComputation]) -> list[Tensor]:
        """Runs programs for which there are plans already."""
        return self.numbers(programs)

    @abstractmethod
    def native_numbers(self, programs: Sequence[NnetComputation]) -> list[Tensor]:
        """Runs programs in float32, with native code wherever there is some."""

    def plans(self, programs: Sequence[NnetComputation]) -> list[Plan]:
        """Plans programs, nothing of which is known yet, and proves the plans."""
        forget_plans(programs)
        return [plan_of(program, "float64", prove=True) for program in programs]


def forget_plans(programs: Sequence[NnetComputation]) -> None:
    """Forget all that is kept of plans."""
    for program in programs:
        if program.attachments is not None:
            program.attachments.clear()
        for family in (program.member, program.row_numbers):
            if family is not None:
                family.kept.clear()


class NnetCase(Case):
    """Requests to an nnet3 network. Each is a program; one that is asked twice is made twice."""

    def __init__(
        self,
        name: str,
        nnet: nnet3.Nnet,
        requests: Sequence[nnet3.ComputationRequest],
        options: CompileOptions | None = None,
    ) -> None:
        super().__init__(name)
        self._nnet, self._requests, self._options = nnet, requests, options or CompileOptions()
        self._native = nnet.copy()
        for component in self._native.components.values():
            component.is_native = True

    def programs(self) -> list[NnetComputation]:
        cache = ComputationCache()
        return [cache.compile(self._nnet, request, self._options) for request in self._requests]

    def numbers(self, programs: Sequence[NnetComputation]) -> list[Tensor]:
        return self._results(self._nnet, programs, torch.float64)

    def native_numbers(self, programs: Sequence[NnetComputation]) -> list[Tensor]:
        return self._results(self._native, programs, torch.float32)

    def _results(self, nnet: nnet3.Nnet, programs: Sequence[NnetComputation], dtype: torch.dtype) -> list[Tensor]:
        found = list[Tensor]()
        for request, program in zip(self._requests, programs, strict=True):
            nnet.seed_random(0)
            poison_memory()
            found += [value.clone() for value in results_of(nnet, request, program, dtype)]
        return found


class _Recorder(ComputationCache):
    """Keeps the programs that it gives, and those that a network makes of them, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.given = list[NnetComputation]()

    def program(self, task: CompileTask) -> NnetComputation:
        self.given.append(super().program(task))
        return self.given[-1]

    def prove(self, lowered_from: Any, options: CompileOptions, program: NnetComputation, mark: object) -> None:
        prove_made_of_others(lowered_from, options, program, mark)
        self.given.append(program)


class GraphCase(Case):
    """A computational network that is given some batches. Its programs are compiled while it runs.

    `make` gives it anew: its criterion, if it has one, and what else is wanted of it.
    """

    def __init__(
        self, name: str, make: Callable[[], tuple[Any, dict[str, cn.Node]]], batches: Sequence[Mapping[str, Any]]
    ) -> None:
        super().__init__(name)
        self._make, self._batches = make, batches
        self._caches = dict[torch.dtype, _Recorder]()

    def programs(self) -> list[NnetComputation]:
        self._caches.clear()
        self._numbers = self._run(torch.float64)
        return list(self._caches[torch.float64].given)

    def numbers(self, programs: Sequence[NnetComputation]) -> list[Tensor]:
        """Returns what came out when they were compiled."""
        return self._numbers

    def numbers_again(self, programs: Sequence[NnetComputation]) -> list[Tensor]:
        with mock.patch.dict(os.environ, {PROVE: "0"}):
            return self._run(torch.float64)

    def native_numbers(self, programs: Sequence[NnetComputation]) -> list[Tensor]:
        with mock.patch.dict(os.environ, {PROVE: "0"}):
            return self._run(torch.float32)

    def _run(self, dtype: torch.dtype) -> list[Tensor]:
        criterion, outputs = deepcopy(self._make())  # a network of float32 rounds the parameters of its nodes
        cache = self._caches.setdefault(dtype, _Recorder())
        network = cn.Network(criterion, outputs, dtype=dtype, cache=cache)
        found = list[Any]()
        with mock.patch("nnet3.cn.program.prove_made_of_others", cache.prove):
            self._give(network, found)
        parts = [part if isinstance(part, list) else [part] for part in found]
        return [torch.as_tensor(each) for part in parts for each in part]

    def _give(self, network: cn.Network, found: list[Any]) -> None:
        """Give the network all batches, and add what it computes."""
        for batch in self._batches:
            poison_memory()
            given = {node.name: batch[node.name] for node in network.inputs}
            if network.criteria:
                value, gradients = network.criterion_and_gradients(given, wrt=network.inputs)
                found += [value, *gradients.values()]
            found += [network.evaluate(name, given) for name in network.outputs]
