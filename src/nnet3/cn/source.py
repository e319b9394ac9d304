"""CnSource: a computational network as the graph that lowering sees.

A value of shape D x S becomes a matrix with a row for each sample (n, t) and D columns; one without samples, R x C,
becomes C rows of R columns. Parameters and statistics are memory from outside. Delays and stacks are gathered, row
slices are views, everything else is a kernel.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from nnet3.cn.graph import NodeGraph
from nnet3.cn.node import Node, StoredNode
from nnet3.cn.nodes.component import ComponentOperation
from nnet3.cn.nodes.delay import Delay
from nnet3.cn.nodes.leaves import Input
from nnet3.cn.nodes.rows import RowSlice, RowStack
from nnet3.cn.nodes.sums import Plus
from nnet3.cn.operation import Operation, RunState
from nnet3.cn.order import needed_nodes
from nnet3.cn.shape import Shape
from nnet3.components import Component, Properties
from nnet3.errors import NetworkError
from nnet3.index import IndexTable, T
from nnet3.ir.kernel import Kernel, KernelInfo
from nnet3.lowering.source import GatherPart, NodeKind, Operand, SourceNode, Use

# What is made for a node is called as the node is, with an ending that no name of a node can have.
GRADIENT = ":gradient"
PROBE = ":probe"
VALUE = ":value"
OPERAND = ":operand"


class CnSource:
    """The nodes of a graph that `roots` need, by the names that the graph gives them.

    `given`: nodes whose values are provided instead of computed. `flags`: whether the gradient of each node is needed
    (Algorithm 1.5). `probes`: nodes to whose value zeros from outside are added, so that the derivative of those is the
    gradient of the node, loops included. `training`: whether components compute as in training.
    """

    def __init__(
        self,
        graph: NodeGraph,
        roots: Sequence[Node],
        flags: Mapping[Node, bool],
        given: Collection[Node] = (),
        probes: Collection[Node] = (),
        training: bool = False,
    ):
        self._flags = flags
        self._nodes: list[SourceNode] = []
        self._rules: list[Rule | None] = []
        self._kernels: dict[int, tuple[Operation, KernelInfo]] = {}
        self.number: dict[Node, int] = {}
        self.probe: dict[Node, int] = {}
        self.names = graph.names
        ordered = needed_nodes(graph.nodes, roots, given)
        self.operations = {node: node.operation.in_mode(training) for node in ordered}
        for node in ordered:
            self.number[node] = self._reserve()
        given_with_samples = [
            node
            for node in ordered
            if node.shape.has_samples
            and node not in graph.states
            and (node in given or isinstance(node.operation, Input))
        ]
        clock = given_with_samples[0] if given_with_samples else None
        self._clock = None if clock is None else self.number[clock]
        for node in ordered:
            self._add(node, node in given, node in probes)

    # ---- making the nodes ----

    def _reserve(self) -> int:
        self._nodes.append(SourceNode("", NodeKind.PROVIDED, 0))
        self._rules.append(None)
        return len(self._nodes) - 1

    def _add(self, node: Node, is_given: bool, has_probe: bool) -> None:
        number, name = self.number[node], self.names[node]
        if is_given or isinstance(node.operation, Input) or isinstance(node, StoredNode):
            self._nodes[number] = self._provided(name, node.shape, self._flags.get(node, False))
            return
        if not has_probe:
            self._compute(number, node, name)
            return
        plain, probe = self._reserve(), self._reserve()
        self._compute(plain, node, name + VALUE)
        self._nodes[probe] = self._provided(name + PROBE, node.shape, True)
        self.probe[node] = probe
        self._kernel(number, name, Plus(), [plain, probe], [node.shape] * 2, node.shape, [True, True])

    @staticmethod
    def _provided(name: str, shape: Shape, needs_gradient: bool) -> SourceNode:
        if shape.cols is None:
            return SourceNode(name, NodeKind.PROVIDED, shape.rows)
        gradient = name + GRADIENT if needs_gradient else ""
        return SourceNode(name, NodeKind.PROVIDED, shape.rows, num_rows=shape.cols, memory=name, gradient=gradient)

    def _compute(self, number: int, node: Node, name: str) -> None:
        operation = self.operations[node]
        operands = [self.number[operand] for operand in node.operands]
        shapes = [operand.shape for operand in node.operands]
        if isinstance(operation, Delay):
            self._nodes[number] = SourceNode(
                name,
                NodeKind.GATHERED,
                operation.rows,
                parts=(GatherPart(operation.rows, 1, len(operands), default=operation.default),),
            )
            if self._clock is None:
                raise NetworkError(f"'{name}' is delayed, but no input says which frames there are")
            self._rules[number] = DelayRule(self._clock, operands, operation.lag)
        elif isinstance(operation, RowSlice) and node.shape.has_samples:
            self._nodes[number] = SourceNode(
                name,
                NodeKind.VIEW,
                operation.rows,
                (Operand(operands[0]),),
                col_offset=operation.first,
            )
        elif isinstance(operation, RowStack) and all(shape.has_samples for shape in shapes):
            parts = tuple(GatherPart(shape.rows, slot, 1) for slot, shape in enumerate(shapes))
            self._nodes[number] = SourceNode(name, NodeKind.GATHERED, node.shape.rows, parts=parts)
            self._rules[number] = StackRule(operands)
        elif isinstance(operation, ComponentOperation) and not operation.component.identity_indexes:
            self._component(number, name, operation, operands[0])
        else:
            wanted = [self._flags.get(operand, False) for operand in node.operands]
            self._kernel(number, name, operation, operands, shapes, node.shape, wanted)

    def _kernel(
        self,
        number: int,
        name: str,
        operation: Operation,
        operands: Sequence[int],
        shapes: Sequence[Shape],
        value: Shape,
        wanted: Sequence[bool],
    ) -> None:
        uses = [self._operand(name, i, *pair, value) for i, pair in enumerate(zip(operands, shapes, strict=True))]
        self._nodes[number] = SourceNode(name, NodeKind.KERNEL, value.rows, tuple(uses), num_rows=value.cols)
        self._kernels[number] = operation, operation.info(name, shapes, value, wanted)

    def _component(self, number: int, name: str, operation: ComponentOperation, operand: int) -> None:
        """A component that looks at other frames: what it sees is gathered, zeros where there is no frame."""
        component, gathered = operation.component, self._reserve()
        part = GatherPart(component.input_dim, 1, 1)
        self._nodes[gathered] = SourceNode(f"{name}{OPERAND}0", NodeKind.GATHERED, component.input_dim, parts=(part,))
        if self._clock is None:
            raise NetworkError(f"'{name}' looks at other frames, but no input says which frames there are")
        self._rules[gathered] = PaddedRule([self._clock, operand], [0, 0])
        used = (Operand(gathered, Use.INDEXED),)
        self._nodes[number] = SourceNode(name, NodeKind.KERNEL, component.output_dim, used)
        self._rules[number] = ComponentRule(gathered, component)
        self._kernels[number] = operation, operation.info(name, (), Shape(component.output_dim), (False,))

    def _operand(self, name: str, place: int, number: int, shape: Shape, value: Shape) -> Operand:
        if not shape.has_samples:
            return Operand(number, Use.WHOLE)
        if value.has_samples:
            return Operand(number)
        # All samples of an operand lie in a gathered node of their own.
        gathered = self._reserve()
        self._nodes[gathered] = SourceNode(
            f"{name}{OPERAND}{place}", NodeKind.GATHERED, shape.rows, parts=(GatherPart(shape.rows, 0, 1),)
        )
        self._rules[gathered] = StackRule([number])
        return Operand(gathered, Use.ALL_SAMPLES)

    def kernels(self, state: RunState) -> dict[str, Kernel]:
        """What computes the kernel nodes, by name."""
        return {info.name: operation.kernel(state) for operation, info in self._kernels.values()}

    def kernels_to_update(self, kernels: Mapping[str, Kernel]) -> dict[str, Kernel]:
        """The same, but for those with parameters of their own: what collects the gradients of these."""
        updated = {info.name: op.gradient_kernel() for op, info in self._kernels.values() if info.updatable}
        return {**kernels, **updated}

    def kernels_of_statistics(self) -> dict[str, Kernel]:
        """What collects the statistics of training, by name."""
        return {info.name: op.gradient_kernel() for op, info in self._kernels.values() if info.stores_stats}

    def kernel_infos(self) -> list[KernelInfo]:
        return [info for _, info in self._kernels.values()]

    # ---- GraphSource ----

    @property
    def nodes(self) -> Sequence[SourceNode]:
        return self._nodes

    def may_use(self, node: int) -> Sequence[int]:
        rule = self._rules[node]
        return rule.sources if rule is not None else [operand.node for operand in self._nodes[node].operands]

    def slots(self, node: int, indexes: IndexTable) -> tuple[np.ndarray, IndexTable]:
        rule = self._rules[node]
        assert rule is not None, "only gathered nodes have slots"
        return rule.slots(indexes)

    def computable(self, node: int, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rule = self._rules[node]
        assert rule is not None, "only gathered nodes have slots"
        return rule.computable(indexes, available)

    def kernel(self, node: int) -> KernelInfo:
        return self._kernels[node][1]

    def arrange(self, node: int, inputs: IndexTable, outputs: IndexTable) -> tuple[IndexTable, IndexTable]:
        rule = self._rules[node]
        if isinstance(rule, ComponentRule) and rule.component.properties & Properties.REORDERS_INDEXES:
            return rule.component.reorder_indexes(inputs, outputs)
        return inputs, outputs

    def precompute(self, node: int, inputs: IndexTable, outputs: IndexTable, *, need_backprop: bool) -> Any:
        operation = self._kernels[node][0]
        if isinstance(operation, ComponentOperation) and operation.component.needs_indexes:
            return operation.component.precompute_indexes(inputs, outputs, need_backprop=need_backprop)
        return None


class Rule(abc.ABC):
    """Where the slots of a gathered node look: `moves` (slots,) in time, at `sources` (slots,)."""

    def __init__(self, sources: Sequence[int], moves: Sequence[int]):
        self.sources = list(sources)
        self._moves = np.array(moves, np.int64)

    def slots(self, indexes: IndexTable) -> tuple[np.ndarray, IndexTable]:
        rows = len(indexes)
        nodes = np.broadcast_to(np.array(self.sources, np.int32), (rows, len(self.sources)))
        looked_at = np.repeat(indexes[:, np.newaxis], len(self.sources), axis=1)
        looked_at[:, :, T] += self._moves.astype(np.int32)
        return nodes, looked_at

    @abc.abstractmethod
    def computable(self, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """From which slots are available (rows, slots): rows computable (rows,), the slots they use."""


class StackRule(Rule):
    """The same index of each source; all must be there."""

    def __init__(self, sources: Sequence[int]):
        super().__init__(sources, [0] * len(sources))

    def computable(self, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        whole = np.logical_and.reduce(available, axis=1)
        return whole, available & whole[:, np.newaxis]


class PaddedRule(Rule):
    """The same index of the operand (slot 1) in frames that there are by the clock, an input (slot 0, never used); in
    others the default.
    """

    def computable(self, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        used = available.copy()
        used[:, 1] &= used[:, 0]
        used[:, 0] = False
        return np.ones(len(available), bool), used


class ComponentRule(Rule):
    """Where a component looks that is not simple."""

    def __init__(self, gathered: int, component: Component):
        super().__init__([gathered], [0])
        self.component = component

    def slots(self, indexes: IndexTable) -> tuple[np.ndarray, IndexTable]:
        looked_at = self.component.wanted_inputs(indexes)
        return np.full(looked_at.shape[:2], self.sources[0], np.int32), looked_at

    def computable(self, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.component.computable(indexes, available)


class DelayRule(Rule):
    """A row exists where the clock, an input, has one (slot 0, never used). It uses the first that is there of the
    operand and the initial state, `lag` frames ago; else it is the default.
    """

    def __init__(self, clock: int, sources: Sequence[int], lag: int):
        super().__init__([clock, *sources], [0] + [-lag] * len(sources))

    def computable(self, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        exists = available[:, 0].copy()
        used = available & exists[:, np.newaxis]
        used[:, 0] = False
        if used.shape[1] > 2:
            used[:, 2] &= ~used[:, 1]
        return exists, used
