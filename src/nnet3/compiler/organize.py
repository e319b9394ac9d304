"""From the computation graph to steps: what the scheduler is told about nodes and components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3.compiler.graph import ComputationGraph
from nnet3.compiler.node_rules import NodeRules
from nnet3.compiler.request import ComputationRequest
from nnet3.components import Properties
from nnet3.errors import RequestError
from nnet3.index import NO_TIME, find_rows, format_indexes
from nnet3.nnet.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode, Node
from nnet3.schedule import NO_ITEM, CycleError, Step, StepKind, epochs, make_steps, phases

if TYPE_CHECKING:
    from nnet3.nnet import Nnet


@dataclass(frozen=True, eq=False)
class Schedule:
    """The steps of a computation, in order, with the indexes of their rows (padding rows have t = NO_TIME)."""

    graph: ComputationGraph
    steps: list[Step]
    indexes: list[np.ndarray]  # of each step: (rows, 3)
    epoch_of_node: np.ndarray
    num_phases: int

    def __str__(self) -> str:
        """A line for each step: its node, its rows, and what is done for them."""
        lines = [f"{len(self.steps)} steps in {self.num_phases} phases"]
        for number, (step, table) in enumerate(zip(self.steps, self.indexes, strict=True)):
            name = self.graph.node_names[step.node]
            what = _WHAT[step.kind].format(source=step.source)
            lines.append(f"step {number}: {name} {format_indexes(table, max_items=6)} {what}")
        return "\n".join(lines)


_WHAT = {
    StepKind.INPUT: "provided",
    StepKind.OUTPUT: "requested",
    StepKind.COMPUTING: "computed from step {source}",
    StepKind.COMPUTING_INPUT: "gathered",
    StepKind.VIEW: "columns of step {source}",
}


def schedule(nnet: Nnet, request: ComputationRequest, graph: ComputationGraph) -> Schedule:
    """Order the cindexes of the graph into steps by rules (a), (b) and (c). Raises RequestError on a cycle."""
    rules = NodeRules(nnet)
    epoch_of_node, _ = epochs(rules.directed_graph())
    try:
        phase_of_item = phases(*graph.dependencies, epoch_of_node[graph.node])
    except CycleError as error:
        raise _cycle_error(graph, error) from None
    source_of_item = np.full(graph.num_cindexes, NO_ITEM, np.int32)
    for number, node in enumerate(nnet.nodes):
        if isinstance(node, DimRangeNode) and graph.first[number] < graph.first[number + 1]:
            source_of_item[graph.first[number] : graph.first[number + 1]] = graph.slots[number][:, 0]
    arranger = _RowArranger(nnet, graph)
    steps = make_steps(
        graph.node,
        phase_of_item,
        np.arange(graph.num_cindexes),
        np.array([_kind(node) for node in nnet.nodes]),
        [(nnet.node_number[io.name], graph.cindex_ids(nnet.node_number[io.name], io.indexes)) for io in request.inputs],
        [
            (nnet.node_number[io.name], graph.cindex_ids(nnet.node_number[io.name], io.indexes))
            for io in request.outputs
        ],
        arranger.inputs_of,
        source_of_item,
    )
    num_phases = int(phase_of_item.max()) + 1 if len(phase_of_item) else 0
    return Schedule(graph, steps, arranger.index_tables(steps), epoch_of_node, num_phases)


def _kind(node: Node) -> StepKind:
    if isinstance(node, InputNode):
        return StepKind.INPUT
    if isinstance(node, ComponentNode):
        return StepKind.COMPUTING
    if isinstance(node, DimRangeNode):
        return StepKind.VIEW
    assert isinstance(node, DescriptorNode)
    return StepKind.OUTPUT if node.is_output else StepKind.COMPUTING_INPUT


class _RowArranger:
    """Tells the scheduler which rows a component's step reads, and remembers the indexes where it adds padding."""

    def __init__(self, nnet: Nnet, graph: ComputationGraph):
        self.nnet, self.graph = nnet, graph
        self._tables: list[tuple[np.ndarray, np.ndarray]] = []  # of each computed step: input and output indexes

    def inputs_of(self, node: int, items: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
        graph = self.graph
        component_node = self.nnet.nodes[node]
        assert isinstance(component_node, ComponentNode)
        component = self.nnet.component_of(component_node)
        used = graph.slots[node][items - graph.first[node]]
        input_items = used[:, 0] if component.identity_indexes and used.shape[1] else np.unique(used[used >= 0])
        inputs, outputs = graph.indexes[input_items], graph.indexes[items]
        if component.properties & Properties.REORDERS_INDEXES:
            ordered_inputs, ordered_outputs = component.reorder_indexes(inputs, outputs)
            input_items = _follow(input_items, inputs, ordered_inputs)
            items = _follow(items, outputs, ordered_outputs)
            inputs, outputs = ordered_inputs, ordered_outputs
        self._tables.append((inputs, outputs))
        return node - 1, input_items, items

    def index_tables(self, steps: list[Step]) -> list[np.ndarray]:
        """The index table of each step."""
        tables: list[np.ndarray] = []
        arranged = iter(self._tables)
        for step in steps:
            if step.kind == StepKind.COMPUTING_INPUT:
                tables += next(arranged)  # its own table and that of the computing step right after it
            elif step.kind != StepKind.COMPUTING:
                padded = self.graph.indexes[step.items]
                padded[step.items == NO_ITEM] = (0, NO_TIME, 0)
                tables.append(padded)
        return tables


def _follow(items: np.ndarray, table: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """The items in the order of `ordered`, whose rows are those of `table` and padding."""
    rows = find_rows(table, ordered)
    return np.where(rows >= 0, items[rows], NO_ITEM)


def _cycle_error(graph: ComputationGraph, error: CycleError) -> RequestError:
    shown = []
    for item in error.items[:12]:
        name, index = graph.node_names[graph.node[item]], graph.indexes[item]
        if not name.endswith("_input"):
            shown.append(f"{name} at t={index[1]}")
    return RequestError(
        f"a value depends on itself: {' <- '.join(shown)}{' <- ...' if len(error.items) > 12 else ''}; "
        "a recurrence must move in time for every t it is used at"
    )
