"""The networks of which programs are compiled: a fixed list, small and of many kinds."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

import nnet3
from nnet3 import cn
from nnet3.driver import CompileTask, ComputationCache
from nnet3.ir.computation import NnetComputation
from nnet3.options import CompileOptions
from tests.cn.random_graphs import random_graph
from tests.differential.subjects import poison_memory
from tests.driver.ragged_requests import ragged_request
from tests.families.networks import BLSTM, TDNN, request_for, results_of
from tests.random_networks import RandomNetwork, computable_request, random_network
from tests.spliced_recurrences import affine_loop, lstm_stack

_XCONFIGS = {
    "lstm": "input dim=2 name=input\nlstm-layer name=l cell-dim=3 delay=-1\noutput name=output input=l",
    "tdnnf": "input dim=8 name=input\ntdnnf-layer name=a dim=8 bottleneck-dim=3 time-stride=1\n"
    "tdnnf-layer name=b dim=8 bottleneck-dim=3 time-stride=0\noutput name=output input=b",
}


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


class NnetCase(Case):
    def __init__(
        self, name: str, nnet: nnet3.Nnet, requests: Sequence[nnet3.ComputationRequest], options: CompileOptions
    ) -> None:
        super().__init__(name)
        self._nnet, self._requests, self._options = nnet, requests, options

    def programs(self) -> list[NnetComputation]:
        cache = ComputationCache()
        return [cache.compile(self._nnet, request, self._options) for request in self._requests]

    def numbers(self, programs: Sequence[NnetComputation]) -> list[Tensor]:
        found = list[Tensor]()
        for request, program in zip(self._requests, programs, strict=True):
            self._nnet.seed_random(0)
            poison_memory()
            found += [value.clone() for value in results_of(self._nnet, request, program)]
        return found


class _Recorder(ComputationCache):
    """Keeps the programs that it gives, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.given = list[NnetComputation]()

    def program(self, task: CompileTask) -> NnetComputation:
        self.given.append(super().program(task))
        return self.given[-1]


class GraphCase(Case):
    """A computational network: it is run when it is compiled, and gives those numbers."""

    def __init__(self, seed: int) -> None:
        super().__init__(f"computational network {seed}")
        self._criterion, self._last, self._inputs = random_graph(random.Random(seed))

    def programs(self) -> list[NnetComputation]:
        cache = _Recorder()
        network = cn.Network(self._criterion, {"last": self._last}, dtype=torch.float64, cache=cache)
        inputs = {node.name: self._inputs[node.name] for node in network.inputs}
        value, gradients = network.criterion_and_gradients(inputs, wrt=network.inputs)
        last = network.evaluate("last", inputs)
        parts = [part if isinstance(part, list) else [part] for part in (value, last, *gradients.values())]
        self._numbers = [torch.as_tensor(each) for part in parts for each in part]
        return cache.given

    def numbers(self, programs: Sequence[NnetComputation]) -> list[Tensor]:
        return self._numbers


def corpus() -> list[Case]:
    """Returns the cases, always the same ones."""
    usual, saving = CompileOptions(), CompileOptions(level=4)
    cases: list[Case] = [
        _trained("loop, backward in time", affine_loop((-1, 0, 1), -1), usual),
        _trained("loop, forward in time", affine_loop((1, 0, -1), 2, over="layer", first=True), usual),
        _trained("loop over a sum", affine_loop((-3, 0, 3), 1, over="layer", joined="Sum"), saving),
        _trained("fast-lstmp", lstm_stack("fast-lstmp-layer", 3, (-3, 0, 3)), usual),
        _trained("lstmb", lstm_stack("lstmb-layer", -1, (-1, 0)), usual),
    ]
    for name, text in _XCONFIGS.items():
        nnet = nnet3.Nnet.from_xconfig(text, seed=1)
        cases.append(NnetCase(name, nnet, [request_for(nnet, 4, 2, margin=3, train=True)], saving))
    for seed in (4, 7, 11, 53):
        made = random_network(seed)
        nnet = made.nnet()
        request = computable_request(nnet, made.request)
        if request is not None:
            cases.append(NnetCase(f"random network {seed}", nnet, [request], usual))
    blstm, tdnn = nnet3.Nnet.from_config(BLSTM, seed=1), nnet3.Nnet.from_config(TDNN, seed=1)
    family = [request_for(blstm, frames, 2, margin=6, train=True) for frames in (18, 15)]
    family.append(ragged_request(blstm, (17, 12, 5), margin=6, train=True))  # continued to 17 frames, then restricted
    feedforward = [request_for(tdnn, 9, 3, margin=4, train=True), ragged_request(tdnn, (9, 4), margin=4, train=True)]
    cases += [
        NnetCase("several lengths", blstm, family, usual),
        NnetCase("feedforward, several lengths", tdnn, feedforward, usual),
    ]
    cases += [GraphCase(seed) for seed in (7, 11, 19)]
    return cases


def _trained(name: str, made: RandomNetwork, options: CompileOptions) -> Case:
    return NnetCase(name, made.nnet(), [made.request], options)
