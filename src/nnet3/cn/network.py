"""Network: a computational network that is evaluated, differentiated and trained."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.cn.drawing import Picture, picture
from nnet3.cn.graph import NodeGraph
from nnet3.cn.node import Node, StoredNode
from nnet3.cn.nodes.leaves import ParameterNode
from nnet3.cn.nodes.statistics import StatisticNode
from nnet3.cn.operation import RunState
from nnet3.cn.order import Composite, gradient_order, need_gradient_flags
from nnet3.cn.printing import describe_network, describe_order
from nnet3.cn.program import Program, Question, Runner
from nnet3.cn.samples import Layout, Sequences, as_matrix
from nnet3.cn.source import needed_nodes
from nnet3.cn.stamps import Stamps
from nnet3.computation.computation import NnetComputation
from nnet3.errors import GradientError, NetworkError, ShapeError
from nnet3.lowering.graph import ComputationGraph
from nnet3.text import did_you_mean

Criteria = Node | Sequence[Node] | Mapping[Node, float] | None
Outputs = Mapping[str, Node] | Sequence[Node] | Node | None
_MOST_RUNNERS = 128


class Network:
    """A graph of nodes with a criterion, outputs, and memory for gradients.

    `criterion`: a node of shape 1 x 1, several of them, or a mapping from such nodes to weights. `outputs`: nodes that
    are wanted, if liked with names. Nodes without a name get one. `seed` is that of dropout. With `optimize` false
    programs are run as they are lowered. Raises NetworkError for a graph that cannot be computed.

    Values are columns: a value with samples is (rows, samples), of a batch of sequences a list of (rows, frames); one
    without samples is (rows, columns), and a number if it is 1 x 1. A network is used by one thread at a time.
    """

    def __init__(
        self,
        criterion: Criteria = None,
        outputs: Outputs = None,
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
        optimize: bool = True,
    ):
        self.criteria = _weights(criterion)
        self.outputs = _named(outputs)
        if not self.criteria and not self.outputs:
            raise NetworkError("a network needs a criterion or an output")
        self._nodes = NodeGraph([*self.criteria, *self.outputs.values()])
        self.device = torch.device(device)
        self.state = RunState(torch.Generator().manual_seed(seed))
        self.optimize = optimize
        self.computed: tuple[str, ...] = ()  # what the last evaluation computed anew
        self._runners: OrderedDict[tuple[object, ...], Runner] = OrderedDict()
        self._stamps = Stamps(self._nodes)
        self._gradients: dict[StoredNode, Tensor] = {}
        self._last: tuple[Any, Layout | None, dict[Node, Tensor]] = (None, None, {})
        self.dtype = dtype
        self.to(dtype)

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

    def find(self, node: Node | str) -> Node:
        """A node by its name, or by the name of an output. Raises NetworkError for names that there are not."""
        if isinstance(node, str) and node in self.outputs:
            return self.outputs[node]
        return self._nodes.find(node)

    def parameters(self) -> dict[str, np.ndarray]:
        """Copies of all parameters by name, (rows, columns); frozen ones and constants too."""
        return {node.name: node.value for node in self._parameter_nodes()}

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        """Give parameters new values, (rows, columns). Raises NetworkError, ShapeError, and then changes nothing."""
        checked = []
        for name, value in values.items():
            node = self._parameter(name)
            checked.append((node, node.checked_value(value)))
        for node, array in checked:
            node.value = array

    def tensors(self) -> dict[str, Tensor]:
        """The memory of trainable parameters, transposed (columns, rows), `grad` being that of their gradients.

        Torch optimizers may be given the values of this dict: after `backward`, a step changes the network.
        """
        found = {}
        for node in self._parameter_nodes():
            if node.trainable:
                node.memory.grad = self._gradient(node)
                found[node.name] = node.memory
        return found

    def freeze(self, *names: str | Node) -> None:
        """Parameters that are not to be trained any more."""
        self._set_trainable(names, False)

    def unfreeze(self, *names: str | Node) -> None:
        """Parameters that are to be trained again."""
        self._set_trainable(names, True)

    def _set_trainable(self, names: Iterable[str | Node], trainable: bool) -> None:
        for name in names:
            self._parameter(name).trainable = trainable

    def to(self, dtype: torch.dtype | None = None, device: str | torch.device | None = None) -> Network:
        """Convert parameters and statistics, shared with other networks of the same nodes; returns the network."""
        self.device = self.device if device is None else torch.device(device)
        self.dtype = self.dtype if dtype is None else dtype
        for node in self._nodes.stored:
            if node.memory.dtype != self.dtype or node.memory.device != self.device:
                node.memory = node.memory.detach().to(self.device, self.dtype)
        self._gradients.clear()
        self._runners.clear()
        self._stamps.forget()
        return self

    def _parameter_nodes(self) -> list[ParameterNode]:
        return [node for node in self._nodes.nodes if isinstance(node, ParameterNode)]

    def _parameter(self, name: str | Node) -> ParameterNode:
        node = self.find(name)
        if not isinstance(node, ParameterNode):
            raise NetworkError(f"'{node.name}' is no parameter, but: {node.type}")
        return node

    def _gradient(self, node: StoredNode) -> Tensor:
        if node not in self._gradients:
            self._gradients[node] = torch.zeros_like(node.memory)
        return self._gradients[node]

    # ---- values ----

    def evaluate(self, node: Node | str | Sequence[Node | str], inputs: Mapping[str, Any] | None = None) -> Any:
        """The value of a node, or a list with the values of several.

        `inputs`: by name, what the node needs; more is allowed. Computes only what is asked for, and of that only what
        is not known from the last evaluation: values hold until an input or parameter below them changes. Dropout is
        off. Raises NetworkError for nodes and inputs that are missing, ShapeError for inputs that do not fit.
        """
        if isinstance(node, Sequence) and not isinstance(node, str):
            roots = [self.find(each) for each in node]
            values, layout = self._values_of(roots, inputs or {})
            return [self._shown(root, values[root], layout) for root in roots]
        return self.evaluate([node], inputs)[0]

    def _values_of(self, roots: Sequence[Node], inputs: Mapping[str, Any]) -> tuple[dict[Node, Tensor], Layout | None]:
        layout = self._take(roots, inputs)
        self._stamps.look_at_parameters()
        valid = self._stamps.valid()
        needed = needed_nodes(self._nodes.nodes, roots, valid)
        outputs = [node for node in needed if node.operands and node not in valid and not isinstance(node, StoredNode)]
        self.computed = tuple(node.name for node in outputs)
        if outputs:
            kept = frontier(self._nodes.nodes, outputs, roots)
            given = tuple(node for node in needed if node in valid)
            question = Question(tuple(kept), layout, given, states=self._nodes.states)
            runner = self._runner(question)
            self.state.training = False
            self._stamps.keep(runner.forward({node: self._stamps.value(node) for node in needed if self._known(node)}))
        return {
            root: root.memory if isinstance(root, StoredNode) else self._stamps.value(root) for root in roots
        }, layout

    @property
    def composites(self) -> Sequence[Composite]:
        """The graph without loops of Algorithm 1.6, in forward order."""
        return self._nodes.composites

    def given_values(
        self, roots: Sequence[Node], inputs: Mapping[str, Any]
    ) -> tuple[Layout | None, dict[Node, Tensor]]:
        """Which samples there are, and the inputs that the roots need as rows."""
        layout = self._take(roots, inputs)
        needed = needed_nodes(self._nodes.nodes, roots, ())
        self.state.training = False
        return layout, {node: self._stamps.value(node) for node in needed if node in self._nodes.inputs}

    def shown(self, node: Node, values: Mapping[Node, Tensor], layout: Layout | None) -> Any:
        """A node's value, from its rows, as users see it."""
        return self._shown(node, node.memory if isinstance(node, StoredNode) else values[node], layout)

    def _known(self, node: Node) -> bool:
        return not isinstance(node, StoredNode) and node in self._stamps._values

    def _shown(self, node: Node, rows: Tensor, layout: Layout | None) -> Any:
        if node.shape.has_samples:
            assert layout is not None
            lag = self._nodes.states.get(node)
            return (layout if lag is None else layout.of_states(lag)).value_of(rows)
        array = rows.detach().cpu().numpy().T.copy()
        return array[0, 0] if node.shape.is_scalar else array

    def _take(self, roots: Sequence[Node], inputs: Mapping[str, Any]) -> Layout | None:
        """Give the inputs that the roots need to the stamps; returns which samples there are."""
        by_name = {node.name: node for node in self._nodes.inputs}
        for name in inputs:
            if name not in by_name:
                hint = did_you_mean(name, by_name) or f"there is: {', '.join(by_name) or 'none'}"
                raise NetworkError(f"there is no input '{name}'; {hint}")
        needed = needed_nodes(self._nodes.nodes, roots, ())
        leaves = [node for node in needed if node in by_name.values()]
        missing = [f"'{node.name}' ({node.shape})" for node in leaves if node.name not in inputs]
        if missing:
            raise NetworkError(f"missing inputs: {', '.join(missing)}")
        for statistic in needed:
            if isinstance(statistic, StatisticNode) and not statistic.is_computed:
                raise NetworkError(f"the statistic '{statistic.name}' is not known yet: call compute_statistics first")
        states = self._nodes.states
        plain = [node for node in leaves if node.shape.has_samples and node not in states]
        layout = Layout.of(inputs[plain[0].name], f"input '{plain[0].name}'") if plain else None
        for node in leaves:
            what = f"input '{node.name}'"
            self._stamps.give(node, self._rows(node, inputs[node.name], layout, states.get(node), what).to(self.device))
        return layout

    def _rows(self, node: Node, value: Any, layout: Layout | None, lag: int | None, what: str) -> Tensor:
        if not node.shape.has_samples:
            array = as_matrix(value, what)
            if array.shape != (node.shape.rows, node.shape.cols):
                raise ShapeError(f"{what}: expected shape {(node.shape.rows, node.shape.cols)}, got {array.shape}")
            return torch.empty(array.T.shape, dtype=self.dtype).copy_(torch.as_tensor(array.T))
        if layout is None:
            raise NetworkError(f"{what} is an initial state: give the input whose frames it precedes, too")
        if lag is None:
            return layout.rows_of(value, node.shape.rows, what, self.dtype)
        states = layout.of_states(lag)
        if abs(lag) == 1 and isinstance(value, np.ndarray):  # a column for each sequence
            value = Sequences(np.split(value, value.shape[1], axis=1))
        return states.rows_of(value, node.shape.rows, what, self.dtype)

    # ---- gradients ----

    def gradients(
        self, inputs: Mapping[str, Any], *, wrt: Sequence[Node | str] = (), training: bool = True
    ) -> dict[str, np.ndarray | list[np.ndarray]]:
        """The gradient of the criterion, summed over samples, by the name of each trainable parameter: (rows, columns).

        `wrt`: other nodes whose gradients are wanted too, of the shape of their values. Going against a gradient
        makes the criterion smaller. Raises GradientError where something between has no gradient.
        """
        return self.criterion_and_gradients(inputs, wrt=wrt, training=training)[1]

    def criterion_and_gradients(
        self, inputs: Mapping[str, Any], *, wrt: Sequence[Node | str] = (), training: bool = True
    ) -> tuple[float, dict[str, Any]]:
        """The weighted sum of the criteria, and `gradients` of it."""
        extra = tuple(self.find(node) for node in wrt)
        value, layout, found = self._backward(inputs, extra, training)
        result: dict[str, Any] = {}
        for parameter in self._parameter_nodes():
            if parameter.trainable or parameter in extra:
                result[parameter.name] = self._gradient(parameter).detach().cpu().numpy().T.copy()
        for node in extra:
            if not isinstance(node, StoredNode):
                rows = found.get(node)
                if rows is None:
                    rows = torch.zeros_like(self._zero_gradient(node, layout))
                result[node.name] = self._shown(node, rows, layout)
        return value, result

    def criterion(self, inputs: Mapping[str, Any], *, training: bool = False) -> float:
        """The weighted sum of the criteria; with `training`, dropout is on."""
        roots = tuple(self.criteria)
        if not training:
            values = self.evaluate(roots, inputs)
            return sum(weight * float(value) for weight, value in zip(self.criteria.values(), values, strict=True))
        layout = self._take(roots, inputs)
        runner = self._runner(Question(roots, layout, states=self._nodes.states))
        self.state.training = True
        found = runner.forward({node: self._stamps.value(node) for node in self._nodes.inputs if self._known(node)})
        return sum(weight * float(found[node]) for node, weight in self.criteria.items())

    def compute_statistics(self, minibatches: Iterable[Mapping[str, Any]]) -> None:
        """Go through a data set and compute the statistics that are not known yet, once (Section 1.4.4).

        A statistic of something that itself needs another takes a second round, so give a list, not a generator.
        """
        waiting = [node for node in self._nodes.stored if isinstance(node, StatisticNode) and not node.is_computed]
        if len(waiting) > 1:
            minibatches = list(minibatches)
        while waiting:
            ready = [node for node in waiting if not self._waits_for(node, waiting)]
            for node in ready:
                node.forget()
            for batch in minibatches:
                values, _ = self._values_of([node.operands[0] for node in ready], batch)
                for node in ready:
                    node.accept(values[node.operands[0]])
            for node in ready:
                node.finish()
            waiting = [node for node in waiting if node not in ready]

    def _waits_for(self, node: StatisticNode, others: Sequence[Node]) -> bool:
        below = needed_nodes(self._nodes.nodes, [node.operands[0]], ())
        return any(other in below for other in others)

    def backward(self, inputs: Mapping[str, Any], *, training: bool = True) -> float:
        """The criterion; its gradients are left in the memory that `tensors` shows."""
        return self._backward(inputs, (), training)[0]

    def _zero_gradient(self, node: Node, layout: Layout | None) -> Tensor:
        if not node.shape.has_samples:
            return torch.zeros(node.shape.cols or 1, node.shape.rows)
        assert layout is not None
        lag = self._nodes.states.get(node)
        return torch.zeros((layout if lag is None else layout.of_states(lag)).num_samples, node.shape.rows)

    def _backward(
        self, inputs: Mapping[str, Any], extra: tuple[Node, ...], training: bool
    ) -> tuple[float, Layout | None, dict[Node, Tensor]]:
        if not self.criteria:
            raise NetworkError("the network has no criterion")
        roots = tuple(self.criteria)
        flags = need_gradient_flags(roots, dict.fromkeys(extra, True))
        needed = needed_nodes(self._nodes.nodes, roots, ())
        check_gradients_exist(needed, flags)
        layout = self._take(roots, inputs)
        final = tuple(
            dict.fromkeys(n for n in self._carried().values() if n in needed and n not in roots and n.operands)
        )
        probes = tuple(node for node in extra if node.operands and node in needed and not isinstance(node, StoredNode))
        leaves = {node for node in needed if not node.operands or isinstance(node, StoredNode)}
        question = Question(
            (*roots, *final),
            layout,
            criteria=tuple(root for root in roots if flags[root]),
            flags={node: flag for node, flag in flags.items() if flag and (node in leaves or node in flags)},
            probes=probes,
            states=self._nodes.states,
        )
        runner = self._runner(question)
        for parameter in self._parameter_nodes():
            if parameter.trainable or parameter in extra:
                self._gradient(parameter).zero_()
        self.state.training = training
        values = runner.forward({node: self._stamps.value(node) for node in needed if node in self._nodes.inputs})
        self._last = inputs, layout, {node: values[node] for node in final}
        found = runner.backward(self.criteria) if question.criteria else {}
        return sum(weight * float(values[node]) for node, weight in self.criteria.items()), layout, found

    def _carried(self) -> dict[Node, Node]:
        """The nodes whose last frames are the initial states of what follows, by the inputs that these are."""
        nodes = self._nodes.nodes
        return {n.operands[1]: n.operands[0] for n in nodes if n.type == "delay" and len(n.operands) == 2}

    @property
    def initial_states(self) -> dict[Node, int]:
        """Inputs that are initial states of delays, each with the largest lag that it serves."""
        return dict(self._nodes.states)

    def final_states(self, inputs: Mapping[str, Any]) -> dict[str, list[np.ndarray]]:
        """For each initial state the frames that follow on it: all frames of what is delayed, by sequence.

        Those of the last gradient, if it was of these inputs; else they are evaluated.
        """
        carried = self._carried()
        last, layout, found = self._last
        if last is not inputs or layout is None or any(node not in found for node in carried.values()):
            return dict(zip([s.name for s in carried], self.evaluate(list(carried.values()), inputs), strict=True))
        return {state.name: self._shown(node, found[node], layout) for state, node in carried.items()}

    def _runner(self, question: Question) -> Runner:
        key = question.key
        if key not in self._runners:
            for node in self._nodes.stored:
                if question.flags.get(node, False):
                    self._gradient(node)
            program = Program(question, optimize=self.optimize)
            self._runners[key] = Runner(program, self.state, self._gradients, self.dtype, self.device)
            while len(self._runners) > _MOST_RUNNERS:
                self._runners.popitem(last=False)
        self._runners.move_to_end(key)
        return self._runners[key]

    # ---- to look at ----

    def order(self, node: Node | str | None = None, *, gradient: bool = False) -> Any:
        """The order of computation of a node (default: of everything), by Algorithms 1.2 and 1.6, as names that print
        one a line; a loop is a tuple. `gradient`: the order in which gradients are computed (Algorithm 1.4).
        """
        roots = self._nodes.roots if node is None else [self.find(node)]
        if gradient:
            if len(roots) != 1:
                roots = list(self.criteria)
            return describe_order([[each] for each in gradient_order(roots[0])], self._nodes)
        graph = NodeGraph(roots)
        return describe_order([list(composite.nodes) for composite in graph.composites], self._nodes)

    def graph(self, inputs: Mapping[str, Any], nodes: Sequence[Node | str] = ()) -> ComputationGraph:
        """Which (node, index) there are for these inputs and what each uses; of all roots, or of `nodes`."""
        return self._program(inputs, nodes, gradients=False).graph

    def program(
        self, inputs: Mapping[str, Any], nodes: Sequence[Node | str] = (), *, gradients: bool | None = None
    ) -> NnetComputation:
        """The commands that compute `nodes` (default: the criteria with their gradients, or else all outputs)."""
        wants = bool(self.criteria) and not nodes if gradients is None else gradients
        return self._program(inputs, nodes, gradients=wants).computation

    def _program(self, inputs: Mapping[str, Any], nodes: Sequence[Node | str], gradients: bool) -> Program:
        roots = [self.find(node) for node in nodes] or list(self.criteria) or list(self.outputs.values())
        layout = self._take(roots, inputs)
        flags = need_gradient_flags(roots) if gradients else {}
        criteria = tuple(self.criteria) if gradients else ()
        roots = [root for root in roots if root.operands and not isinstance(root, StoredNode)]
        question = Question(tuple(roots), layout, (), criteria, flags, (), self._nodes.states)
        return Program(question, optimize=self.optimize)

    def draw(
        self, path: str | os.PathLike[str] | None = None, *, highlight: Sequence[Node | str] = (), title: str = ""
    ) -> Picture:
        """A picture with `.svg` and `.dot`; written to `path` (.svg, .png, .dot) if one is given."""
        drawn = picture(self, highlight=highlight, title=title)
        if path is not None:
            drawn.save(path)
        return drawn

    def __str__(self) -> str:
        return describe_network(self)

    def __repr__(self) -> str:
        parameters = sum(node.memory.numel() for node in self._parameter_nodes() if node.trainable)
        return f"<Network: {len(self.nodes)} nodes, {parameters} trainable numbers>"


def frontier(nodes: Iterable[Node], computed: Sequence[Node], roots: Iterable[Node]) -> list[Node]:
    """Of what is computed now, the values to keep: those asked for, those that other nodes of the network use, and
    those without samples that nodes with samples use.
    """
    now, kept = set(computed), {root for root in roots if root in set(computed)}
    for node in nodes:
        if isinstance(node, StoredNode):
            continue
        for operand in node.operands:
            if operand in now and (node not in now or node.shape.has_samples > operand.shape.has_samples):
                kept.add(operand)
    return [node for node in computed if node in kept]


def check_gradients_exist(nodes: Iterable[Node], flags: Mapping[Node, bool]) -> None:
    """Raise GradientError for a node through which a gradient would have to pass but cannot."""
    for node in nodes:
        for place, operand in enumerate(node.operands):
            if flags.get(operand, False) and flags.get(node, False):
                try:
                    node.operation.check_gradient(place)
                except GradientError as error:
                    where = f"\n  {node.place}" if node.place.line else ""
                    raise GradientError(f"'{node.name}': {error}{where}") from None


def _weights(criterion: Criteria) -> dict[Node, float]:
    if criterion is None:
        return {}
    if isinstance(criterion, Node):
        criterion = {criterion: 1.0}
    weights = dict(criterion) if isinstance(criterion, Mapping) else dict.fromkeys(criterion, 1.0)
    for node in weights:
        if not node.shape.is_scalar:
            raise ShapeError(f"a criterion is 1 x 1, but '{node.formula}' is {node.shape}: sum it with sum_elements")
    return {node: float(weight) for node, weight in weights.items()}


def _named(outputs: Outputs) -> dict[str, Node]:
    if outputs is None:
        return {}
    if isinstance(outputs, Mapping):
        return dict(outputs)
    nodes = [outputs] if isinstance(outputs, Node) else list(outputs)
    return {node.name or f"output{number}": node for number, node in enumerate(nodes, 1)}
