"""NetworkState: the graph of a network, criteria and outputs, parameters, and the network's programs."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from nnet3.base.native.fastest import fastest
from nnet3.base.options.compiling import CompileOptions
from nnet3.cn.dependence import Stamps
from nnet3.cn.graph import NodeGraph
from nnet3.cn.node import Gradients, Node, StoredNode
from nnet3.cn.node_text import structure_line
from nnet3.cn.nodes.leaves import ParameterNode
from nnet3.cn.order import Composite
from nnet3.cn.program import Program, Question
from nnet3.cn.roots import Criteria, Outputs, named_outputs, weights_of
from nnet3.cn.runners import Runner, Runners
from nnet3.cn.samples import Layouts, SampleLayout, checked_layout
from nnet3.cn.stages_run import StagesRun
from nnet3.engine.driver import ComputationCache, default_cache
from nnet3.engine.ir.kernel import Kernel
from nnet3.engine.runtime.memory import checked_device
from nnet3.errors import ArgumentError, NetworkError, ShapeError, check_kind

if TYPE_CHECKING:
    from typing_extensions import Self

Method = TypeVar("Method", bound=Callable[..., Any])
_MANY_ROWS = range(8, 65)  # of an iteration, which multiplies panels in the time in which they come from memory
DTYPES = (torch.float16, torch.float32, torch.float64)  # those that NumPy has


def takes_turns(method: Method) -> Method:
    """Decorator: lets a method of a network run in one thread at a time."""

    @functools.wraps(method)
    def alone(self: NetworkState, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(Method, alone)


class NetworkState:
    """Base of `Network`: all but its computations."""

    def __init__(
        self,
        criterion: Criteria = None,
        outputs: Outputs = None,
        *,
        seed: int = 0,
        dtype: torch.dtype | None = None,
        device: str | torch.device | None = None,
        optimize: bool = True,
        compile_options: CompileOptions | None = None,
        cache: ComputationCache | None = None,
        layout: str = "columns",
    ):
        self.criteria = weights_of(criterion)
        self.outputs = named_outputs(outputs)
        if not self.criteria and not self.outputs:
            raise NetworkError("a network needs a criterion or an output")
        self._nodes = NodeGraph([*self.criteria, *self.outputs.values()])
        check_kind(seed, int, "the seed of a network", "an integer")
        check_kind(compile_options, (CompileOptions, type(None)), "the compile_options of a network", "CompileOptions")
        check_kind(cache, (ComputationCache, type(None)), "the cache of a network", "a ComputationCache")
        self._lock = threading.RLock()  # threads take turns
        self.generator = torch.Generator().manual_seed(seed % 2**63)
        self.training = True  # see `train`
        self.layout = checked_layout(layout)
        self.compile_options = compile_options or CompileOptions()
        if not optimize:
            self.optimize = False
        self.cache = default_cache() if cache is None else cache
        self.computed: tuple[str, ...] = ()  # what the last evaluation computed anew
        self.recorders: dict[str, Kernel] = {}  # that stand for kernels, by name; see `natural_gradient`
        self._runners = Runners(self._state_of_runners, self._program_of, self._runner_of)
        self._stamps = Stamps(self._nodes)
        self._gradients = Gradients(self._nodes.looked_up)
        self._has_warned = False  # of samples that are no sequences
        self._ignored: set[str] = set()  # entries of batches of which a warning was given
        self._layouts = Layouts({})  # of what was given last
        self._last: tuple[dict[Node, int | None], Layouts, dict[Node, Tensor]] = ({}, Layouts({}), {})
        self._dtype, self._device = torch.float32, torch.device("cpu")
        self._follow_memory(is_new=True)
        self.to(dtype, device)

    @property
    def optimize(self) -> bool:
        """`compile_options.optimize`, which may be set here."""
        return self.compile_options.optimize

    @optimize.setter
    def optimize(self, value: bool) -> None:
        self.compile_options = replace(self.compile_options, optimize=value)

    # ---- parameters ----

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, in forward order."""
        return tuple(self._nodes.nodes)

    @property
    def stored(self) -> tuple[StoredNode, ...]:
        """Parameters and statistics."""
        return tuple(self._nodes.stored)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(self._nodes.inputs)

    @property
    def names(self) -> Mapping[Node, str]:
        """The names of nodes in this network: a node's own name, or else type and number."""
        return self._nodes.names

    @property
    def composites(self) -> Sequence[Composite]:
        """The graph without loops of Algorithm 1.6, in forward order."""
        return self._nodes.composites

    @property
    def initial_states(self) -> dict[Node, int]:
        """Inputs that are initial states of delays, with the largest lag served."""
        return dict(self._nodes.states)

    def find(self, node: Node | str) -> Node:
        """Returns a node by its name, or by the name of an output. Raises NetworkError for unknown names."""
        if isinstance(node, str) and node in self.outputs:
            return self.outputs[node]
        return self._nodes.find(node)

    def parameters(self) -> dict[str, np.ndarray]:
        """Copies of all parameters by name, (rows, columns); frozen ones and constants too.

        Those of a component node are called NODE.PARAMETER and are of the component's own shape.
        """
        found = {self.names[node]: node.value for node in self._nodes.parameters}
        found.update({name: tensor.detach().cpu().numpy().copy() for name, tensor in self._component_tensors()})
        return found

    @takes_turns
    def set_parameters(self, values: Mapping[str, Any]) -> None:
        """Gives parameters new values, (rows, columns). Raises NetworkError, ShapeError, and then changes nothing."""
        check_kind(values, Mapping, "the new values of parameters", "a mapping from names to arrays")
        of_components = dict(self._component_tensors())
        checked: list[Callable[[], object]] = []
        for name, value in values.items():
            if name in of_components:
                tensor = of_components[name]
                if np.shape(value) != tuple(tensor.shape):
                    raise ShapeError(f"value of '{name}': expected {tuple(tensor.shape)}, got {np.shape(value)}")
                checked.append(functools.partial(tensor.copy_, torch.as_tensor(np.asarray(value))))
                continue
            node = self._parameter(name)
            checked.append(functools.partial(node.take_numbers, torch.as_tensor(node.checked_value(value)).T))
        with torch.no_grad():
            for write in checked:
                write()

    def _component_tensors(self, *, trainable: bool = False) -> list[tuple[str, Tensor]]:
        """Parameters of component nodes; with `trainable` without frozen ones."""
        return [
            (f"{self.names[node]}.{name}", tensor)
            for node, operation in self._nodes.components
            if operation.needs_training or not trainable
            for name, tensor in operation.parameters().items()
        ]

    def tensors(self) -> dict[str, Tensor]:
        """Returns the memory of trainable parameters, transposed (columns, rows), with gradients as `grad`.

        Torch optimizers may be given the values of this dict: after `backward`, a step changes the network.
        """
        self._show_gradients()
        found: dict[str, Tensor] = {self.names[each]: each.memory for each in self._nodes.parameters if each.trainable}
        return found | dict(self._component_tensors(trainable=True))

    def _show_gradients(self) -> None:
        """Lets parameters' tensors have their gradients as `grad`, which an optimizer may have taken off."""
        for parameter in self._nodes.parameters:
            if parameter.trainable:
                shown = parameter.memory.grad
                if shown is None or shown is not self._gradients.get(parameter):
                    parameter.memory.grad = self._gradient(parameter)
        for _, operation in self._nodes.components:
            if operation.needs_training:
                gradients = operation.gradient_kernel().parameters()
                for name, tensor in operation.parameters().items():
                    tensor.grad = gradients[name]

    def freeze(self, *names: str | Node) -> None:
        """Parameters that are not to be trained any more, by name, by a path ("encoder") or by a pattern ("*.W")."""
        self._set_trainable(names, False)

    def unfreeze(self, *names: str | Node) -> None:
        """Parameters that are to be trained again."""
        self._set_trainable(names, True)

    def _matching(self, name: str | Node) -> list[Node]:
        """Returns the parameter or component of a name, all below a path, or all that match a pattern with * and ?."""
        learners = [n for n in self._nodes._learners if n.is_trained or not getattr(n.operation, "constant", False)]
        ours = {self.names[node]: node for node in learners}
        if not isinstance(name, str) or name in ours:
            return [self.find(name)]
        pattern = name if set(name) & set("*?") else f"{name}.*"
        found = [node for own, node in ours.items() if fnmatchcase(own, pattern)]
        if not found and pattern == name:
            raise NetworkError(f"no parameter has a name such as '{name}'")
        return found or [self.find(name)]

    def _set_trainable(self, names: Iterable[str | Node], trainable: bool) -> None:
        components = dict(self._nodes.components)
        for node in [node for name in names for node in self._matching(name)]:
            if node in components:
                components[node].trainable = trainable
                tensors = list(components[node].parameters().values())
            else:
                parameter = self._parameter(node)
                parameter.trainable = trainable
                tensors = [parameter.memory]
            for tensor in tensors:
                tensor.grad = None  # an optimizer passes over it

    @takes_turns
    def to(self, dtype: torch.dtype | None = None, device: str | torch.device | None = None) -> Self:
        """Converts parameters and statistics; returns the network.

        Networks with shared nodes share their memory and follow it: see `docs/computational_networks.md`.
        """
        check_kind(dtype, (torch.dtype, type(None)), "the dtype of a network", "one such as torch.float64")
        if dtype is not None and dtype not in DTYPES:
            raise ArgumentError(
                "the dtype of a network must be torch.float16, float32 or float64, which NumPy has too: values come as "
                f"arrays; got {dtype}"
            )
        self._device = self._device if device is None else checked_device(device)
        self._dtype = self._dtype if dtype is None else dtype
        for node in self._nodes.nodes:
            node.convert(self._dtype, self._device)
        for _, operation in self._nodes.components:
            if any((t.dtype, t.device) != (self._dtype, self._device) for t in operation.converted):
                operation.to(self._dtype, self._device)
        self._gradients.clear()
        self._runners.clear()
        self._stamps.forget()
        return self

    @property
    def dtype(self) -> torch.dtype:
        """The type of the numbers in the nodes' memory."""
        self._follow_memory()
        return self._dtype

    @property
    def device(self) -> torch.device:
        """The device on which the nodes' memory lies."""
        self._follow_memory()
        return self._device

    def _follow_memory(self, is_new: bool = False) -> None:
        """Takes on the type and device of the nodes' memory, in case another network of these nodes has converted it.

        A new network, or one whose nodes have no memory, follows the last networks with its nodes, inputs aside.
        Where only some nodes were converted, the rest is converted too: to the widest type, to round no number unasked,
        and to the new device.
        """
        memory = [node.memory for node in self._nodes.stored if node.taken]
        memory += [tensor for _, operation in self._nodes.components for tensor in operation.converted]
        found = {(tensor.dtype, tensor.device) for tensor in memory}
        if is_new or not found:
            found.update(node.taken for node in self._nodes.nodes if node.taken and not node.operation.is_given)
        if found <= {(self._dtype, self._device)}:
            return
        dtype = functools.reduce(torch.promote_types, [dtype for dtype, _ in found])
        devices = {device for _, device in found} - {self._device}
        if len(devices) > 1:
            names = ", ".join(sorted(map(str, devices)))
            raise NetworkError(f"the network's parameters lie on several devices ({names}): call to(device=...)")
        self.to(dtype, next(iter(devices), self._device))

    def _parameter(self, name: str | Node) -> ParameterNode:
        node = self.find(name)
        if not node.is_parameter:
            raise NetworkError(f"'{self.names[node]}' is no parameter, but: {node.type}")
        return cast(ParameterNode, node)

    def _gradient(self, node: Node) -> Tensor:
        return self._gradients.of(node)

    # ---- modes and random numbers ----

    def train(self, mode: bool = True) -> Self:
        """Lets gradients be computed in training mode again, after `eval`; returns the network."""
        self.training = mode
        return self

    def eval(self) -> Self:
        """Lets gradients be computed in test mode from now on: no dropout, batch-norm by its statistics.

        Values (`evaluate`, `criterion`) are computed in test mode whatever the network's mode is.
        """
        return self.train(False)

    def seed_random(self, seed: int) -> None:
        """Makes all later random draws, those of dropout and of components, a function of `seed`."""
        self.generator.manual_seed(seed % 2**63)
        for number, (_, operation) in enumerate(self._nodes.components, 1):
            operation.component.seed_random(seed * 1_000_003 + number)

    def turned(self, value: Any) -> Any:
        """Returns a value with samples as the network's layout has it, from columns; or the other way round."""
        if self.layout == "columns":
            return value
        return [each.T for each in value] if isinstance(value, list) else value.T

    def structure_digest(self) -> str:
        """Returns a digest: equal for networks with the same nodes by the same names, also with different numbers."""
        names = self._nodes.names
        lines = [f"{structure_line(node, names, node.operation)} {node.shape}" for node in self.nodes]
        lines += [f"{names[node]} {weight!r}" for node, weight in self.criteria.items()]
        return hashlib.blake2b("\n".join(sorted(lines)).encode(), digest_size=8).hexdigest()

    @takes_turns
    def touch(self) -> None:
        """Forgets all known values: the next evaluation computes all needed values anew."""
        self._stamps.forget()

    # ---- programs ----

    def _hoists(self, layout: SampleLayout | None) -> bool:
        """Returns false where values of a loop with these samples come sooner without `hoists` (see `find_sums`)."""
        are_many = layout is not None and layout.are_sequences and len(layout.lengths) in _MANY_ROWS
        is_native = are_many and self._dtype == torch.float32 and self._device.type == "cpu"
        return not (is_native and fastest().packed == "panels")

    def _runner(self, question: Question) -> Runner:
        return self._runners.find(question)

    def _staged(
        self,
        layouts: Layouts,
        needed: Collection[Node],
        keep: Collection[Node],
        values: dict[Node, Tensor],
        flags: Mapping[Node, bool] = MappingProxyType({}),
        probes: Collection[Node] = (),
        *,
        training: bool = False,
        stores_statistics: bool = False,
    ) -> StagesRun:
        """Returns one computation in stages, see `StagesRun`."""
        told = flags, probes, training, stores_statistics, tuple(self.recorders)
        return StagesRun(self._nodes, self._runner, layouts, needed, keep, values, *told)

    def _state_of_runners(self, question: Question) -> tuple[object, ...]:
        """Returns the dependences of runners besides the question's key, while the bonds of the runners last."""
        variants = question.graph.variants(question.training)
        recorders = tuple(map(id, self.recorders.values()))
        return variants, self.compile_options, self._dtype, self._device, recorders

    def _runner_of(self, program: Program) -> Runner:
        return Runner(program, self.generator, self._gradients, self.dtype, self.device, self.recorders)

    def _program_of(self, question: Question, like: Program | None = None) -> Program:
        """Returns the program of a question; `like`: a program of an equal question for other samples."""
        source = None if like is None else like.source
        return Program(question, options=self.compile_options, cache=self.cache, source=source)
