"""Steps: the order of work. A step is one matrix: rows of one node that are computed at once.

The items (cindexes, see `phases`) of one node and one phase make one step. Beyond that every item must come
after all it needs, the steps obey three rules, which let later stages use whole matrices without copying:

(a) What a request provides or asks for is one step each, its rows in the request's own order.
(b) The step of a computing node comes right after the step of its own input node, whose rows are just those it
    reads, in the order in which it reads them.
(c) A view (a range of the columns of another node) has a step for each step of that node that it looks at, row for
    row the same, so that it can be a sub-matrix of it.

A recurrent layer `b` that reads a layer `a`, and below it the input and above it the output, become for example

    input x | a_input, a | b_input(t=0), b(t=0) | b_input(t=1), b(t=1) | ... | output
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from nnet3.schedule.directed_graph import Integers

Items = npt.NDArray[np.int32]

NO_ITEM = -1
"""In the place of an item: a row of a step that stands for none (padding)."""


class StepKind(IntEnum):
    """What a step does, and (as the kind of a node) what the steps of a node do."""

    INPUT = 0  # holds what the request provides
    OUTPUT = 1  # computes what the request asks for
    COMPUTING = 2  # computes its rows; an INPUT step if the request provides them
    COMPUTING_INPUT = 3  # gathers what the COMPUTING step right after it reads
    VIEW = 4  # a range of the columns of another step


@dataclass(frozen=True, eq=False)
class Step:
    """Rows of one node that are computed at once. Several steps may have the same node."""

    node: int
    items: Items  # (rows,); NO_ITEM in rows of padding, and in rows of a view that nothing needs
    kind: StepKind
    source: int = -1  # the step whose matrix this one reads as it is: of its input node, or of what it views

    def __str__(self) -> str:
        source = "" if self.source < 0 else f" of step {self.source}"
        return f"{self.kind.name.lower()}{source}: node {self.node}, {len(self.items)} rows"


InputsOf = Callable[[int, Items], tuple[int, Items, Items]]
"""(node, items of one step of it) -> (its input node, the items it reads, its items again).

The input items are in the order in which the node wants to read them. It may put its own items in another
order too, and pad both with NO_ITEM. The lengths may differ, if a node does not work row by row.
"""


def make_steps(
    node_of_item: Integers,
    phase_of_item: Integers,
    rank_of_item: Integers,
    kind_of_node: Integers,
    given_inputs: Sequence[tuple[int, Integers]],
    given_outputs: Sequence[tuple[int, Integers]],
    inputs_of: InputsOf | None = None,
    source_of_item: Integers | None = None,
) -> list[Step]:
    """All items in steps: given inputs, then what is computed by phase and node number, then outputs.

    Arrays `..._of_item` have shape (num_items,), `kind_of_node` holds the StepKind of each node. `rank_of_item` orders
    the rows of a computed step. `given_inputs` and `given_outputs` are (node, items) in the order of the request;
    inputs may belong to a COMPUTING node, whose other items are then computed. `inputs_of` tells what a COMPUTING
    node reads (None: there are no COMPUTING_INPUT nodes, each node gathers its inputs itself). `source_of_item` is the
    item that a VIEW item looks at (it is not read for other items), of an INPUT or COMPUTING node.

    Items of COMPUTING_INPUT nodes come where `inputs_of` puts them, perhaps in several steps; all others are in
    exactly one step. Python's work grows with the number of steps only.
    """
    inputs = [Step(node, _as_items(items), StepKind.INPUT) for node, items in given_inputs]
    outputs = [Step(node, _as_items(items), StepKind.OUTPUT) for node, items in given_outputs]
    kind_of_item = kind_of_node[node_of_item]
    is_given = np.zeros(len(node_of_item), dtype=bool)
    for step in inputs + outputs:
        is_given[step.items[step.items != NO_ITEM]] = True
    must_be_given = (kind_of_item == StepKind.INPUT) | (kind_of_item == StepKind.OUTPUT)
    assert is_given[must_be_given].all(), "an item of an input or output node is not in the request"

    steps = inputs
    computed = np.flatnonzero((kind_of_item == StepKind.COMPUTING) & ~is_given).astype(np.int32)
    for node, items in _groups(computed, node_of_item, phase_of_item, rank_of_item):
        if inputs_of is None:
            steps.append(Step(node, items, StepKind.COMPUTING))
            continue
        input_node, input_items, items = inputs_of(node, items)
        steps.append(Step(input_node, _as_items(input_items), StepKind.COMPUTING_INPUT))
        steps.append(Step(node, _as_items(items), StepKind.COMPUTING, source=len(steps) - 1))
    steps += outputs

    views = np.flatnonzero(kind_of_item == StepKind.VIEW)
    if len(views) == 0:
        return steps
    assert source_of_item is not None, "source_of_item is needed where there are VIEW items"
    return _with_views(steps, views, node_of_item, source_of_item)


def locate_items(steps: Sequence[Step], num_items: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Where each item is: its step and its row there, (num_items,) each, -1 for items that are in no step.

    Items of COMPUTING_INPUT steps are left out: they may be in several, and nobody but the next step reads them.
    """
    step_of_item = np.full(num_items, -1, dtype=np.int32)
    row_of_item = np.full(num_items, -1, dtype=np.int32)
    numbers = [i for i, step in enumerate(steps) if step.kind != StepKind.COMPUTING_INPUT]
    if not numbers:
        return step_of_item, row_of_item
    items = np.concatenate([steps[i].items for i in numbers])
    lengths = np.array([len(steps[i].items) for i in numbers])
    step_of_row = np.repeat(numbers, lengths)
    row = np.arange(len(items)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    real = items != NO_ITEM
    step_of_item[items[real]] = step_of_row[real]
    row_of_item[items[real]] = row[real]
    return step_of_item, row_of_item


def _groups(
    items: Items, node_of_item: Integers, phase_of_item: Integers, rank_of_item: Integers
) -> list[tuple[int, Items]]:
    """(node, its items in order of rank) for each phase and each node that has items in it."""
    if len(items) == 0:
        return []
    node, phase = node_of_item[items], phase_of_item[items]
    order = np.lexsort((rank_of_item[items], node, phase))
    items, node, phase = items[order], node[order], phase[order]
    starts = np.flatnonzero((node[1:] != node[:-1]) | (phase[1:] != phase[:-1])) + 1
    nodes = node[np.concatenate([[0], starts])].tolist()
    return list(zip(nodes, np.split(items, starts), strict=True))


def _with_views(steps: list[Step], views: Integers, node_of_item: Integers, source_of_item: Integers) -> list[Step]:
    """The steps with the steps of views after those they look at, in order of the views' node numbers."""
    step_of_item, row_of_item = locate_items(steps, len(node_of_item))
    seen_step, seen_row = step_of_item[source_of_item[views]], row_of_item[source_of_item[views]]
    assert seen_step.min() >= 0, "a view looks at an item that is in no step"
    # Within a step of the source, the views are told apart by node; the rows can come in any order.
    order = np.lexsort((node_of_item[views], seen_step))
    views, seen_step, seen_row = views[order], seen_step[order], seen_row[order]
    node = node_of_item[views]
    cuts = np.flatnonzero((node[1:] != node[:-1]) | (seen_step[1:] != seen_step[:-1])) + 1
    firsts = np.concatenate([[0], cuts])
    views_of_step: dict[int, list[Step]] = {}
    parts = zip(
        node[firsts].tolist(), seen_step[firsts].tolist(), np.split(views, cuts), np.split(seen_row, cuts), strict=True
    )
    for view_node, source, view_items, rows in parts:
        items = np.full(len(steps[source].items), NO_ITEM, dtype=np.int32)
        items[rows] = view_items
        views_of_step.setdefault(source, []).append(Step(view_node, items, StepKind.VIEW))

    result: list[Step] = []
    for number, step in enumerate(steps):
        if step.kind == StepKind.COMPUTING and step.source >= 0:
            step = replace(step, source=len(result) - 1)
        result.append(step)
        place = len(result) - 1
        result += [replace(view, source=place) for view in views_of_step.get(number, [])]
    return result


def _as_items(items: Integers) -> Items:
    return np.ascontiguousarray(items, dtype=np.int32)
