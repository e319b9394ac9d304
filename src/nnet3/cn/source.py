"""CnSource: a computational network as a graph for lowering.

A value of shape D x S becomes a matrix with a row for each sample (n, t) and D columns; a value without samples, R x C,
becomes C rows of R columns. Parameters and statistics are memory from outside. The operations of other
nodes say their kinds (see `Form`): delays and stacks are gathered, row slices views, all others kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nnet3.base.index import IndexTable
from nnet3.cn.fusing import FusedSum, SumOfProducts, SumTerm, find_sums
from nnet3.cn.graph import NodeGraph
from nnet3.cn.node import Node
from nnet3.cn.nodes.delay import Delay
from nnet3.cn.nodes.sums import Plus
from nnet3.cn.operation import Operation, OperationState
from nnet3.cn.sequence_operation import SequenceOperation
from nnet3.cn.sequence_operation_in_loop import SequenceOperationInLoop, contexts_of, row_operands
from nnet3.cn.shape import Shape
from nnet3.cn.source_nodes import ComponentRule, PaddedRule, SlotRule, StackRule
from nnet3.engine.ir.kernel import Kernel, KernelInfo
from nnet3.engine.lowering.source import GatherPart, NodeKind, Operand, SourceNode, Use, common_period
from nnet3.engine.schedule import reached
from nnet3.errors import NetworkError

# Names of helper nodes, or endings behind the name of their node: with a colon, which names of users cannot have.
GRADIENT = ":gradient"
PROBE = ":probe"
SEQUENCE = "sequence:number"
CLOCK = "frame:exists"
VALUE = ":value"
OPERAND = ":operand"
EARLY = ":early"


class CnSource:
    """The nodes of a graph needed by `roots`, by their names in the graph.

    `given`: nodes whose values are provided instead of computed. `flags`: whether the gradient of a node is needed
    (Algorithm 1.5). `probes`: nodes to whose value zeros from outside are added, so that the derivative of the zeros is
    the gradient of the node, loops included. `training`: whether components compute as in training. `accumulates`:
    whether gradients of stored nodes are added to the contents of memory. `apart`: names of nodes not to be taken
    into sums (see `fusing`); None if no node is. `has_clock`: whether an input of its own says which frames there are,
    instead of the first input that has them all.
    """

    def __init__(
        self,
        graph: NodeGraph,
        roots: Sequence[Node],
        flags: Mapping[Node, bool],
        given: Collection[Node] = (),
        probes: Collection[Node] = (),
        training: bool = False,
        accumulates: bool = True,
        apart: Collection[str] | None = None,
        has_clock: bool = False,
        *,
        hoists: bool = True,
    ):
        self._flags, self._accumulates, self._given = flags, accumulates, given
        self._nodes: list[SourceNode] = []
        self._rules: list[SlotRule | None] = []
        self._kernels: dict[int, tuple[Operation, KernelInfo]] = {}
        self.number: dict[Node, int] = {}
        self.probe: dict[Node, int] = {}
        self.names = graph.names
        seen = set(reached(roots, lambda node: () if node in given or node.is_stored else row_operands(node)))
        ordered = [node for node in graph.nodes if node in seen]
        #: Nodes of whole sequences that the program computes frame by frame.
        self.operations_in_loops = {
            node: self._operation_in_loop(node) for node in ordered if node.operation.is_whole and node not in given
        }
        self.sequence = -1  # the number of each row's sequence, for these
        self.operations = {
            node: self.operations_in_loops.get(node) or node.operation.in_mode(training) for node in ordered
        }
        self._sums: dict[Node, FusedSum] = {}
        if apart is not None:
            kept = {*roots, *probes, *(node for node in ordered if self.names[node] in apart)}
            self._sums, taken = find_sums(ordered, graph.composites, given, kept, hoists=hoists)
            ordered = [node for node in ordered if node not in taken]
        for node in ordered:
            self.number[node] = self._reserve()
        clocks = (
            node
            for node in ordered
            if node.shape.has_samples and node not in graph.states and (node in given or node.operation.is_given)
        )
        self.clock = -1 if has_clock else next((self.number[node] for node in clocks), -1)
        if has_clock:
            self.clock = self._reserve()
            self._nodes[self.clock] = self._provided(CLOCK, Shape(1), False)
        for node in ordered:
            self._add(node, node in given, node in probes)

    # ---- making the nodes ----

    def _operation_in_loop(self, node: Node) -> SequenceOperationInLoop:
        assert isinstance(node.operation, SequenceOperation)
        is_below = self._flags.get(node, False)
        wanted = [is_below and self._flags.get(context, False) for context in contexts_of(node)]
        return SequenceOperationInLoop(node.operation, wanted)

    def _number_of_sequence(self) -> int:
        if self.sequence < 0:
            self.sequence = self._reserve()
            self._nodes[self.sequence] = self._provided(SEQUENCE, Shape(1), False)
        return self.sequence

    def _reserve(self) -> int:
        self._nodes.append(SourceNode("", NodeKind.PROVIDED, 0))
        self._rules.append(None)
        return len(self._nodes) - 1

    def _add(self, node: Node, is_given: bool, has_probe: bool) -> None:
        number, name = self.number[node], self.names[node]
        if is_given or node.operation.is_given or node.is_stored:
            made = self._provided(name, node.shape, self._flags.get(node, False))
            self._nodes[number] = replace(made, accumulates=self._accumulates or not node.is_stored)
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
        if shape.has_samples:
            return SourceNode(name, NodeKind.PROVIDED, shape.rows)
        gradient = name + GRADIENT if needs_gradient else ""
        return SourceNode(name, NodeKind.PROVIDED, shape.rows, num_rows=shape.num_cols, memory=name, gradient=gradient)

    def _compute(self, number: int, node: Node, name: str) -> None:
        if node in self._sums:
            self._sum(number, node, name)
            return
        operation = self.operations[node]
        operands = [self.number[operand] for operand in row_operands(node)]
        shapes = [operand.shape for operand in row_operands(node)]
        is_below = self._flags.get(node, False)  # a criterion, not only what is watched
        wanted = [is_below and self._flags.get(operand, False) for operand in row_operands(node)]
        if node in self.operations_in_loops:
            operands.append(self._number_of_sequence())
            shapes.append(Shape(1, node.shape.cols))
            wanted.append(False)
        form = operation.form(shapes, node.shape)
        if form.clock_for and self.clock < 0:
            raise NetworkError(f"'{name}' {form.clock_for}, but no input says which frames there are")
        if form.kind is NodeKind.KERNEL:
            self._kernel(number, name, operation, operands, shapes, node.shape, wanted, form.rule)
            return
        seen = (Operand(operands[0]),) if form.kind is NodeKind.VIEW else ()
        self._nodes[number] = SourceNode(name, form.kind, node.shape.rows, seen, form.parts, form.col_offset)
        if form.rule is not None:
            self._rules[number] = form.rule(self.clock, operands)

    def _sum(self, number: int, node: Node, name: str) -> None:
        fused, before = self._sums[node], -1
        if fused.early:
            before = self._reserve()
            self._sum_of(before, node, name + EARLY, fused.early)
        self._sum_of(number, node, name, fused.terms, before)

    def _sum_of(self, number: int, node: Node, name: str, terms: Sequence[SumTerm], before: int = -1) -> None:
        """Adds a node for a sum of terms, and of the value of the node `before` the loop, if any."""
        operands = [operand for term in terms for operand in term.operands]
        numbers, shapes = [self.number[operand] for operand in operands], [operand.shape for operand in operands]
        is_below = self._flags.get(node, False)
        wanted = [is_below and self._flags.get(operand, False) for operand in operands]
        if before >= 0:
            early = [operand for term in self._sums[node].early for operand in term.operands]
            numbers.insert(0, before)
            shapes.insert(0, node.shape)
            wanted.insert(0, is_below and any(self._flags.get(operand, False) for operand in early))
        operation = SumOfProducts.of(terms, adds_value=before >= 0)
        self._kernel(number, name, operation, numbers, shapes, node.shape, wanted)

    def _kernel(
        self,
        number: int,
        name: str,
        operation: Operation,
        operands: Sequence[int],
        shapes: Sequence[Shape],
        value: Shape,
        wanted: Sequence[bool],
        rule: Callable[[int, Sequence[int]], SlotRule] | None = None,
    ) -> None:
        pairs = enumerate(zip(operands, shapes, strict=True))
        uses = [self._operand(name, position, *pair, value, rule is not None) for position, pair in pairs]
        self._nodes[number] = SourceNode(name, NodeKind.KERNEL, value.rows, tuple(uses), num_rows=value.num_cols)
        self._kernels[number] = operation, operation.info(name, shapes, value, wanted)
        if rule is not None:
            self._rules[number] = rule(self.clock, [use.node for use in uses])

    def _operand(self, name: str, position: int, number: int, shape: Shape, value: Shape, is_indexed: bool) -> Operand:
        if not shape.has_samples:
            return Operand(number, Use.WHOLE)
        if value.has_samples and not is_indexed:
            return Operand(number)
        # A gathered node of its own holds all samples, or those looked at: zeros where there is no frame.
        gathered = self._reserve()
        part = GatherPart(shape.rows, int(is_indexed), 1)
        self._nodes[gathered] = SourceNode(f"{name}{OPERAND}{position}", NodeKind.GATHERED, shape.rows, parts=(part,))
        self._rules[gathered] = PaddedRule(self.clock, number) if is_indexed else StackRule([number])
        return Operand(gathered, Use.INDEXED if is_indexed else Use.ALL_SAMPLES)

    @property
    def ends_in_zeros(self) -> bool:
        """True if all rows read beyond the end of a sequence are zero."""
        return not any(isinstance(rule, ComponentRule) for rule in self._rules) and not any(
            operation.lag < 0 and (operation.default != 0 or len(node.operands) > 1 or self._delays_below(node))
            for node, operation in self.operations.items()
            if isinstance(operation, Delay) and node not in self._given
        )

    def _delays_below(self, node: Node) -> bool:
        """Returns true if rows of earlier frames are gathered below this node: they end later than the sequence."""

        def gathered(below: Node) -> Sequence[Node]:
            is_gathered = self._nodes[self.number[below]].kind not in (NodeKind.KERNEL, NodeKind.PROVIDED)
            return below.operands if is_gathered else ()

        return any(below.lag > 0 for below in reached(node.operands, gathered))

    def kernels(self, state: OperationState) -> dict[str, Kernel]:
        """Returns the kernels of the kernel nodes, by name."""
        return {info.name: operation.kernel(state) for operation, info in self._kernels.values()}

    def kernels_to_update(self, kernels: Mapping[str, Kernel]) -> dict[str, Kernel | None]:
        """Returns the kernels, with kernels of parameters replaced by collectors of gradients, frozen ones by None."""
        owners = [(info, op) for op, info in self._kernels.values() if op.parameters() or info.updatable]
        return {**kernels, **{info.name: op.gradient_kernel() if info.updatable else None for info, op in owners}}

    def kernels_of_statistics(self, kernels: Mapping[str, Kernel]) -> dict[str, Kernel | None]:
        """Returns the kernels, with kernels of statistics replaced by collectors of statistics, frozen ones by None."""
        collecting = {info.name: op.gradient_kernel() for op, info in self._kernels.values() if info.stores_stats}
        return {**self.kernels_to_update(kernels), **collecting}

    def kernel_infos(self) -> list[KernelInfo]:
        return [info for _, info in self._kernels.values()]

    # ---- GraphSource ----

    @property
    def nodes(self) -> Sequence[SourceNode]:
        return self._nodes

    @property
    def period(self) -> int | None:
        return common_period(rule.period for rule in self._rules if rule is not None)

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
        return (inputs, outputs) if rule is None else rule.arrange(inputs, outputs)

    def precompute(self, node: int, inputs: IndexTable, outputs: IndexTable, *, need_backprop: bool) -> Any:
        return self._kernels[node][0].precompute_indexes(inputs, outputs, need_backprop)
