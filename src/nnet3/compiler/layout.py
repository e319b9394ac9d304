"""Matrices: every node has one for its values, which all its steps share, and one for its derivatives where needed.

So a step is a range of rows, and what reads a recurrent node after the loop reads one matrix, not one per time step.
A dim-range node has none: it is a range of the columns of its source's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3.compiler.organize import Schedule
from nnet3.compiler.request import ComputationRequest
from nnet3.components import Properties
from nnet3.computation.computation import MatrixInfo, NnetComputation
from nnet3.nnet.nodes import ComponentNode, DimRangeNode
from nnet3.schedule import NO_ITEM, StepKind, locate_items

if TYPE_CHECKING:
    from nnet3.nnet import Nnet


@dataclass(frozen=True, eq=False)
class Layout:
    """Sub-matrices of nodes and steps; 0 where there is none.

    `row_of_item`: the row of a cindex in its node's matrix (for a dim-range cindex: in its source's);
    `deriv_needed` says it for each step, `item_deriv_needed` for each cindex.
    """

    node_value: list[int]
    node_deriv: list[int]
    step_value: list[int]
    step_deriv: list[int]
    row_of_item: np.ndarray
    deriv_needed: np.ndarray
    item_deriv_needed: np.ndarray


def lay_out(nnet: Nnet, request: ComputationRequest, schedule: Schedule, computation: NnetComputation) -> Layout:
    """Declare the matrices of all nodes in the computation."""
    steps, graph = schedule.steps, schedule.graph
    step_of_item, row_in_step = locate_items(steps, graph.num_cindexes)
    needed = _deriv_needed(nnet, request, schedule, step_of_item)
    offsets, row_counts = _row_offsets(nnet, schedule)
    node_value, node_deriv = [0] * len(nnet.nodes), [0] * len(nnet.nodes)
    node_needs = np.zeros(len(nnet.nodes), bool)
    np.logical_or.at(node_needs, [step.node for step in steps], needed)
    tables: dict[int, list[np.ndarray]] = {}
    for step, table in zip(steps, schedule.indexes, strict=True):
        tables.setdefault(step.node, []).append(table)
    for number, node in enumerate(nnet.nodes):
        if row_counts[number] == 0 or isinstance(node, DimRangeNode):
            continue
        rows, dim, indexes = row_counts[number], nnet.node_dim(node.name), np.concatenate(tables[number])
        node_value[number] = computation.new_matrix(rows, dim, MatrixInfo(node.name, False, indexes))
        if node_needs[number]:
            node_deriv[number] = computation.new_matrix(rows, dim, MatrixInfo(node.name, True, indexes))
    for number, node in enumerate(nnet.nodes):
        if isinstance(node, DimRangeNode):
            source = nnet.node_number[node.source]
            for target in (node_value, node_deriv):
                if target[source]:
                    target[number] = computation.new_submatrix(
                        target[source], col_offset=node.dim_offset, num_cols=node.dim
                    )
    step_value, step_deriv = [0] * len(steps), [0] * len(steps)
    for position, step in enumerate(steps):
        if len(step.items) == 0:
            continue
        offset, rows = offsets[position], len(step.items)
        step_value[position] = computation.new_submatrix(node_value[step.node], offset, rows)
        if needed[position]:
            step_deriv[position] = computation.new_submatrix(node_deriv[step.node], offset, rows)
    located = step_of_item >= 0
    row_of_item = np.where(located, row_in_step + np.array(offsets, np.int32)[step_of_item], -1).astype(np.int32)
    return Layout(
        node_value,
        node_deriv,
        step_value,
        step_deriv,
        row_of_item,
        needed,
        np.where(located, needed[step_of_item], False),
    )


def _row_offsets(nnet: Nnet, schedule: Schedule) -> tuple[list[int], list[int]]:
    """First row of each step in its node's matrix (a view: in its source's), and the rows of each node's matrix."""
    row_counts = [0] * len(nnet.nodes)
    offsets: list[int] = []
    for step in schedule.steps:
        if step.kind == StepKind.VIEW:
            offsets.append(offsets[step.source])
            continue
        offsets.append(row_counts[step.node])
        row_counts[step.node] += len(step.items)
    return offsets, row_counts


def _deriv_needed(nnet: Nnet, request: ComputationRequest, schedule: Schedule, step_of_item: np.ndarray) -> np.ndarray:
    """For each step, whether the derivative with respect to its output is needed (seeds: nnet3_compilation)."""
    graph = schedule.graph
    has_deriv = {io.name: io.has_deriv for io in (*request.inputs, *request.outputs)}
    needed = np.zeros(len(schedule.steps), bool)
    if not request.needs_backward:
        return needed
    for position, step in enumerate(schedule.steps):
        node = nnet.nodes[step.node]
        if step.kind == StepKind.INPUT:
            needed[position] = has_deriv[node.name]
        elif step.kind == StepKind.COMPUTING:
            assert isinstance(node, ComponentNode)
            updatable = bool(nnet.component_of(node).properties & Properties.UPDATABLE)
            needed[position] = (updatable and request.need_model_derivative) or needed[step.source]
        elif step.kind == StepKind.VIEW:
            needed[position] = needed[step.source]
        elif step.kind == StepKind.OUTPUT:
            needed[position] = has_deriv[node.name]  # without one it is zero
        else:
            used = graph.slots[step.node][step.items[step.items != NO_ITEM] - graph.first[step.node]]
            needed[position] = needed[np.unique(step_of_item[used[used >= 0]])].any()
    return needed
