"""Random networks of both kinds, as what a differential test runs: a function of a seed."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

import nnet3
from nnet3 import cn
from nnet3.engine.driver import CompileTask, ComputationCache, compile_task
from nnet3.engine.driver.task import key_digest
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.passes.pipeline import Pass
from nnet3.engine.ir.repeats import unrolled
from nnet3.engine.runtime.memory import Lease, pool_of
from nnet3.errors import GradientError, NetworkError
from nnet3.options import CompileOptions
from nnet3.training.train.running_state import Before, natural_gradients, statistics
from tests.cn.random_graphs import random_graph
from tests.cn.random_loops import random_loop_graph
from tests.differential.variants import PLAIN, Variant
from tests.random_networks import ALL_LAYERS, RandomNetwork, computable_request, random_network
from tests.random_stacks import random_stack, spliced_loop

Results = dict[str, Tensor]
Inputs = Mapping[str, Any]
T = TypeVar("T", np.ndarray, Tensor)
_POISONED = 2**21  # bytes: more than nearly all of these networks need


@dataclass(frozen=True)
class Noise:
    """Each number of inputs and parameters is off by at most this part of it, drawn by a seed."""

    part: float
    seed: int = 0

    def on(self, numbers: T) -> T:
        """An array or a tensor with noise."""
        drawn = np.random.default_rng(self.seed).uniform(-self.part, self.part, tuple(numbers.shape))
        factors: Any = 1 + drawn
        return numbers * (torch.as_tensor(factors, dtype=numbers.dtype) if isinstance(numbers, Tensor) else factors)

    @torch.no_grad()
    def disturb(self, parameters: Iterable[Tensor]) -> None:
        for tensor in parameters:
            tensor.copy_(self.on(tensor))


_NONE = Noise(0.0)


class Subject(ABC):
    """A network, what is asked of it, and what it is given. A pass is run once on a program, equal programs once."""

    text: str
    inputs: Inputs

    def __init__(self) -> None:
        self._lowered: list[NnetComputation] = []
        self._optimized: dict[Variant, list[NnetComputation]] = {}
        self._known: list[tuple[list[NnetComputation], torch.dtype, Results]] = []
        self._after: dict[tuple[int, str], tuple[NnetComputation, NnetComputation]] = {}  # what had it, what came of it
        self._disturbed: dict[torch.dtype, list[Results]] = {}

    @abstractmethod
    def _run(self, variant: Variant, dtype: torch.dtype, noise: Noise) -> Results: ...

    def after(self, one: Pass, program: NnetComputation) -> NnetComputation:
        """What a pass makes of a program."""
        key = id(program), one.name
        if key not in self._after:
            self._after[key] = program, one.function(program)
        return self._after[key][1]

    def lowered(self) -> list[NnetComputation]:
        """Its programs before the passes."""
        return self._lowered

    def programs(self, variant: Variant) -> list[NnetComputation]:
        """Its programs after the passes."""
        done = self._optimized.setdefault(variant, [])
        for lowered in self._lowered[len(done) :]:
            program = reduce(lambda before, one: self.after(one, before), variant.passes(), unrolled(lowered))
            program.attachments = {} if program.attachments is None else program.attachments  # plans are kept there
            done.append(program)
        return done

    def results(self, variant: Variant, dtype: torch.dtype) -> Results:
        """Outputs, derivatives, gradients and changes by name, from memory that holds NaN at first."""
        programs = self.programs(variant)
        for others, other_dtype, results in self._known:
            if other_dtype == dtype and len(programs) == len(others) and all(map(_are_equal, programs, others)):
                return results
        results = self._run(variant, dtype, _NONE)
        self._known.append((list(self.programs(variant)), dtype, results))
        return results

    def results_of_disturbed(self, dtype: torch.dtype, draws: int) -> list[Results]:
        """The same without passes, of inputs and parameters that are off by a unit in the last place, several times."""
        known = self._disturbed.setdefault(dtype, [])
        noises = [Noise(torch.finfo(dtype).eps, seed) for seed in range(len(known), draws)]
        known += [self._run(PLAIN, dtype, noise) for noise in noises]
        return known[:draws]


def subject(seed: int) -> Subject | None:
    """The subject of a seed, of every fourth one a computational network; None if it asks what cannot be.

    Of sixteen seeds three have stacks of xconfig layers, two recurrences over inputs at several offsets, and of the
    computational networks two have loops in both directions.
    """
    with suppress(NetworkError, GradientError):
        if seed % 4 == 3:
            return GraphSubject(seed)
        found = NetworkSubject(seed)
        return found if found.request is not None else None
    return None


def _network_of(seed: int) -> RandomNetwork:
    if seed % 16 in (6, 9, 12):
        return random_stack(seed)
    return spliced_loop(seed) if seed % 16 in (8, 13) else random_network(seed, layers=ALL_LAYERS)


def poison_memory() -> None:
    """Let what reads memory that nobody has written read NaN: the memory that the next run is lent."""
    lease = Lease(pool_of(torch.device("cpu")), _POISONED, object())
    lease.arena.storage.fill_(255)
    lease.release()


def _are_equal(one: NnetComputation, other: NnetComputation) -> bool:
    """True if two programs that were made of one by passes are the same."""
    if one is other:
        return True
    if (one.commands, one.submatrices, one.matrices) != (other.commands, other.submatrices, other.matrices):
        return False
    if one.kernels != other.kernels or len(one.index_tables) != len(other.index_tables):
        return False
    return all(map(np.array_equal, one.index_tables, other.index_tables))


class _Networks:
    """A network, one that collects plain gradients and statistics, and one that learns; copied once for all runs."""

    def __init__(self, nnet: nnet3.Nnet) -> None:
        self.three = nnet, nnet.gradient_copy(), nnet.copy()
        learning = self.three[2]
        learning.set_learning_rate(0.1)
        buffers = [buffer for each in self.three for buffer in each.flat_parameters()]
        kept = [each for net in self.three for each in statistics(net).values()]
        self._before = Before(kept, natural_gradients(learning).values(), buffers, parameters=lambda: ())

    def anew(self) -> tuple[nnet3.Nnet, nnet3.Nnet, nnet3.Nnet]:
        """They are as they were at first."""
        self._before.restore()
        return self.three


class NetworkSubject(Subject):
    """An nnet3 network with layers of every kind and a random request."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        made = _network_of(seed)
        self.nnet, self.text = made.nnet(), str(made)
        self._networks: dict[torch.dtype, _Networks] = {}
        self.request = computable_request(self.nnet, made.request)
        if self.request is None:
            return
        rng = random.Random(seed)
        first, last = rng.choice([(None, 0), (None, -2), (2, None)]) if rng.random() < 0.15 else (None, None)
        options = CompileOptions(optimize=False, min_deriv_time=first, max_deriv_time_relative=last)
        numbers = np.random.default_rng(seed)
        ios = (*self.request.inputs, *self.request.outputs)
        self.inputs = {io.name: numbers.standard_normal((len(io.indexes), self.nnet.node_dim(io.name))) for io in ios}
        self._lowered = [compile_task(self.request.task(self.nnet, options))]

    def _run(self, variant: Variant, dtype: torch.dtype, noise: Noise) -> Results:
        """One step with plain gradients and statistics, and two that learn by natural gradient."""
        assert self.request is not None
        (program,) = self.programs(variant)
        inputs, learns = self.inputs, self.request.need_model_derivative
        if noise.part:
            inputs = {name: noise.on(matrix) for name, matrix in inputs.items()}
            nnet = self.nnet.copy().to(dtype=dtype)
            noise.disturb(nnet.flat_parameters())
            networks = _Networks(nnet)
        else:
            networks = self._networks[dtype] = self._networks.get(dtype) or _Networks(self.nnet.copy().to(dtype=dtype))
        nnet, gradient, learning = networks.anew()
        for number, each in enumerate((nnet, gradient)):
            each.seed_random(number)
        computer = nnet3.NnetComputer(program, nnet, gradient if learns else None, dtype=dtype,
                                      nnet_to_store_stats=gradient, check_finite=False)  # fmt: skip
        found = self._step(computer, inputs)
        for name, component in gradient.components.items():
            values = {key: torch.as_tensor(getattr(component, key)) for key in component.statistic_names}
            found.update({f"statistic {name}.{key}": value for key, value in values.items() if "num_dims_" not in key})
        if not learns:
            return found
        found.update({f"gradient of {name}": value for name, value in _parameters(gradient).items()})
        computer = nnet3.NnetComputer(program, nnet, learning, dtype=dtype, check_finite=False)
        for _ in range(2):  # the second one by what natural gradient has learned from the first
            self._step(computer, inputs)
        before = _parameters(nnet)
        found.update({f"change of {name}": value - before[name] for name, value in _parameters(learning).items()})
        return found

    def _step(self, computer: nnet3.NnetComputer, inputs: Inputs) -> Results:
        assert self.request is not None
        poison_memory()
        for io in self.request.inputs:
            computer.accept_input(io.name, inputs[io.name])
        computer.run()
        found = {io.name: computer.get_output(io.name).clone() for io in self.request.outputs}
        if self.request.needs_backward:
            for io in self.request.outputs:
                if io.has_deriv:
                    computer.accept_input(io.name, inputs[io.name])
            computer.run()
        for io in self.request.inputs:
            if io.has_deriv:
                found[f"derivative of {io.name}"] = computer.get_output(io.name).clone()
        return found


def _parameters(nnet: nnet3.Nnet) -> Results:
    return {
        f"{name}.{key}": value.clone()
        for name, component in nnet.components.items()
        for key, value in component.parameters().items()
    }


class _Programs(ComputationCache):
    """Lowers each task once, and runs the passes of a variant on it."""

    def __init__(self, owner: Subject, variant: Variant, places: dict[str, int]) -> None:
        super().__init__()
        self._owner, self._variant, self._places = owner, variant, places

    def program(self, task: CompileTask) -> NnetComputation:
        digest, lowered = key_digest(task.key), self._owner.lowered()
        if digest not in self._places:
            self._places[digest] = len(lowered)
            lowered.append(compile_task(replace(task, options=PLAIN.options())))
        return self._owner.programs(self._variant)[self._places[digest]]


class GraphSubject(Subject):
    """A computational network: a criterion with its gradients."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.criterion, self.last, self.inputs = (random_loop_graph if seed % 8 == 7 else random_graph)(
            random.Random(seed)
        )
        self._places: dict[str, int] = {}
        network = self._network(PLAIN, torch.float64)
        self.inputs = {node.name: self.inputs[node.name] for node in network.inputs}
        self.text = f"seed {seed}\n{network}\n{self.inputs}"
        self.results(PLAIN, torch.float64)  # so that all programs are known

    def _network(self, variant: Variant, dtype: torch.dtype) -> cn.Network:
        cache, options = _Programs(self, variant, self._places), variant.options()
        return cn.Network(self.criterion, {"last": self.last}, dtype=dtype, compile_options=options, cache=cache)

    def _run(self, variant: Variant, dtype: torch.dtype, noise: Noise) -> Results:
        network, inputs = self._network(variant, dtype), self.inputs
        if noise.part:
            inputs = {name: _with(noise, value) for name, value in inputs.items()}
            noise.disturb(network.tensors().values())
        poison_memory()
        value, gradients = network.criterion_and_gradients(inputs, wrt=network.inputs)
        last = network.evaluate("last", inputs)
        found = {"criterion": value, "last": last, **{f"gradient of {name}": g for name, g in gradients.items()}}
        return {name: _columns(each) for name, each in found.items()}


def _with(noise: Noise, value: Any) -> Any:
    return cn.sequences([noise.on(each) for each in value]) if isinstance(value, cn.Sequences) else noise.on(value)


def _columns(value: object) -> Tensor:
    if isinstance(value, list):
        return torch.cat([torch.as_tensor(each) for each in value], dim=1)
    return torch.as_tensor(value)
