"""Puts the cindexes of a graph into steps; a step comes after all steps that it needs.

>>> from tests.lowering.examples import splice
>>> each = splice()
>>> print(schedule(each.source, each.graph))
3 steps in 3 epochs, 0 of them recurrent
step 0: y_input [ (0, 0:3) ] gathered
step 1: y [ (0, 0:3) ] kernel from y_input
step 2: output [ (0, 0:3) ] gathered
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from operator import itemgetter

import numpy as np

from nnet3.base.index import N, T, X
from nnet3.engine.lowering.graph import NO_ITEM, ComputationGraph
from nnet3.engine.lowering.levels import Arranged, NotInBlocks, arrange_step, levels_of
from nnet3.engine.lowering.schedule import EpochSteps, Schedule, Step
from nnet3.engine.lowering.source import GatherPart, GraphSource, NodeKind, Operand, SourceNode, Use
from nnet3.engine.lowering.structure import structure_of
from nnet3.engine.schedule import CycleError
from nnet3.errors import RequestError


def schedule(source: GraphSource, graph: ComputationGraph) -> Schedule:
    """Orders the cindexes of the graph into steps. Raises RequestError where values depend on themselves.

    If a kernel does not keep the rows of equal sequences together, the graph of the result tells them apart.
    """
    try:
        return with_detours(_Scheduler(source, graph).schedule())
    except NotInBlocks:
        return with_detours(_Scheduler(source, graph.told_apart()).schedule())


def with_detours(schedule: Schedule) -> Schedule:
    """Returns the schedule with a gathered node, a detour, before each operand that a kernel cannot read in place.

    A step hands its kernel a block of rows per operand. Scattered rows are copied to a detour first.
    """
    wanted = [
        (node, number)
        for node, spec in enumerate(schedule.nodes)
        for number, operand in enumerate(spec.operands)
        if spec.kind is NodeKind.KERNEL and operand.use is Use.ROW and not _in_blocks(schedule, node, number)
    ]
    if not wanted:
        return schedule
    nodes, items, given = list(schedule.nodes), list(schedule.items), list(schedule.num_given)
    slots: dict[int, np.ndarray] = {}
    before: dict[int, list[int]] = {}
    for node, number in wanted:
        operands = list(nodes[node].operands)
        seen = nodes[operands[number].node]
        slot = int(np.flatnonzero(schedule.graph.slot_operand[node] == number)[0])
        slots[len(nodes)] = schedule.slots_of_rows(node)[:, slot : slot + 1]
        operands[number] = Operand(len(nodes))
        before.setdefault(node, []).append(len(nodes))
        nodes[node] = replace(nodes[node], operands=tuple(operands))
        name = f"{nodes[node].name}[{number}]"
        nodes.append(SourceNode(name, NodeKind.GATHERED, seen.num_cols, parts=(GatherPart(seen.num_cols, 0, 1),)))
        items.append(schedule.items[node])
        given.append(schedule.num_given[node])
    steps: list[Step] = []
    epoch_steps = []
    for start, end, recurrent in schedule.epoch_steps:
        begin = len(steps)
        for step in schedule.steps[start:end]:
            steps += [Step(detour, step.first, step.num_rows) for detour in before.get(step.node, [])]
            steps.append(step)
        epoch_steps.append(EpochSteps(begin, len(steps), recurrent))
    return replace(
        schedule,
        nodes=nodes,
        items=items,
        num_given=given,
        steps=steps,
        epoch_steps=epoch_steps,
        detour_slots=slots,
    )


def _in_blocks(schedule: Schedule, node: int, number: int) -> bool:
    """True if each step of a kernel reads consecutive rows of the operand."""
    positions = schedule.steps_of_node[node]
    if not positions or schedule.nodes[schedule.nodes[node].operands[number].node].num_rows is not None:
        return True
    rows = schedule.operand_rows(node, number)
    follows = rows[1:] - rows[:-1] == 1
    for position in positions[1:]:
        follows[schedule.steps[position].first - 1] = True
    given = schedule.num_given[node]
    return bool(follows[given:].all())


class _Scheduler:
    def __init__(self, source: GraphSource, graph: ComputationGraph) -> None:
        self.source, self.graph, self.nodes = source, graph, source.nodes
        self.items: list[np.ndarray] = [np.empty(0, np.int32) for _ in self.nodes]
        self.num_given = [0] * len(self.nodes)
        self.row_of_item = np.full(graph.num_cindexes, NO_ITEM, np.int32)
        self.numbers = np.arange(graph.num_cindexes, dtype=np.int32)
        self.private = {operand.node for node in self.nodes for operand in node.operands if operand.use is Use.INDEXED}

    def schedule(self) -> Schedule:
        structure = structure_of(self.source)
        steps: list[Step] = []
        epoch_steps = []
        for nodes, recurrent in zip(structure.components, structure.is_recurrent, strict=True):
            start = len(steps)
            steps += self._recurrent_steps(nodes) if recurrent else self._plain_steps(nodes[0])
            if len(steps) > start:
                epoch_steps.append(EpochSteps(start, len(steps), recurrent))
        self._locate_views()
        return Schedule(self.graph, self.nodes, self.items, self.num_given, steps, self.row_of_item, epoch_steps)

    # ---- steps of an epoch ----

    def _plain_steps(self, node: int) -> list[Step]:
        if node in self.private or self.nodes[node].kind is NodeKind.VIEW:
            return []
        first, end = self.graph.first[node : node + 2].tolist()
        if first == end:
            return []
        ids = self.numbers[first:end]
        given = self.graph.is_input[first:end]
        if not given.any() and all(operand.use is not Use.INDEXED for operand in self.nodes[node].operands):
            self.items[node], self.row_of_item[first:end] = ids, self.numbers[: end - first]
            return [Step(node, 0, len(ids))]
        return self._laid_out(node, ids[given], ids[~given], [])

    def _recurrent_steps(self, nodes: list[int]) -> list[Step]:
        graph = self.graph
        ranges = [np.arange(graph.first[node], graph.first[node + 1]) for node in nodes]
        ids = np.concatenate(ranges)
        if len(ids) == 0:
            return []
        level = self._levels(nodes, ids)
        begin = 0
        keyed: list[tuple[int, int, Step]] = []
        for node, own in zip(nodes, ranges, strict=True):
            levels = level[begin : begin + len(own)]
            begin += len(own)
            if len(own) == 0 or node in self.private or self.nodes[node].kind is NodeKind.VIEW:
                continue
            given = graph.is_input[own]
            computed, computed_level = own[~given], levels[~given]
            order = np.argsort(computed_level, kind="stable")
            computed, computed_level = computed[order].astype(np.int32), computed_level[order]
            cuts = np.flatnonzero(np.diff(computed_level)) + 1
            heights = computed_level[np.concatenate([[0], cuts])].tolist() if len(computed) else []
            laid_out = self._laid_out(node, own[given].astype(np.int32), computed, cuts.tolist())
            extra = len(laid_out) // len(heights) if heights else 1
            keyed += [(heights[number // extra], node, step) for number, step in enumerate(laid_out)]
        keyed.sort(key=itemgetter(0, 1))
        return [step for _, _, step in keyed]

    def _levels(self, nodes: list[int], ids: np.ndarray) -> np.ndarray:
        graph = self.graph
        local = np.full(graph.num_cindexes + 1, len(ids), np.int32)
        local[ids] = np.arange(len(ids))
        width = max(1, *(graph.slots[node].shape[1] for node in nodes))
        needs = np.full((len(ids), width), len(ids), np.int32)
        groups: list[np.ndarray] = []
        begin = 0
        for node in nodes:
            slots = graph.slots[node]
            if len(slots) == 0:
                continue
            needs[begin : begin + len(slots), : slots.shape[1]] = local[slots]  # -1 finds the last entry: none
            groups += self._groups(node, begin)
            begin += len(slots)
        try:
            return levels_of(needs, groups)
        except CycleError as error:
            raise self._cycle_error(ids[np.array(error.items)]) from None

    def _groups(self, node: int, begin: int) -> list[np.ndarray]:
        """Returns the rows of a node grouped by x and n, each group in the order of time."""
        table = self.graph.indexes[self.graph.first[node] : self.graph.first[node + 1]]
        if len(self.graph.members) == 1 and (table[:, X] == table[0, X]).all():
            return [begin + np.arange(len(table))]
        keys = table[:, X].astype(np.int64) * 2**32 + table[:, N]
        order = np.argsort(keys, kind="stable")
        return [begin + group for group in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)]

    def _cycle_error(self, items: np.ndarray) -> RequestError:
        graph, shown = self.graph, []
        for item in items[:12].tolist():
            if self.nodes[graph.node[item]].kind is not NodeKind.GATHERED:
                shown.append(f"{self.nodes[graph.node[item]].name} at t={graph.indexes[item, T]}")
        return RequestError(
            f"a value depends on itself: {' <- '.join(shown)}{' <- ...' if len(items) > 12 else ''}; "
            "a recurrence must move in time for every t it is used at"
        )

    # ---- rows ----

    def _laid_out(self, node: int, given: np.ndarray, computed: np.ndarray, cuts: list[int]) -> list[Step]:
        """Lay out the rows of a node: provided rows, then a step per piece between `cuts` of the computed ones.

        A step comes after the step that gathers for it.
        """
        self.num_given[node] = len(given)
        bounds = [0, *cuts, len(computed)] if len(computed) else []
        indexed = next((o.node for o in self.nodes[node].operands if o.use is Use.INDEXED), None)
        if indexed is None:
            self._set_items(node, np.concatenate([given, computed]))
            return [Step(node, len(given) + first, end - first) for first, end in pairwise(bounds)]
        steps: list[Step] = []
        own: list[np.ndarray] = [given]
        gathered: list[np.ndarray] = []
        first_row, first_gathered = len(given), 0
        for first, end in pairwise(bounds):
            arranged: Arranged = arrange_step(self.source, self.graph, node, computed[first:end])
            if len(arranged.inputs):
                steps.append(Step(indexed, first_gathered, len(arranged.inputs)))
                gathered.append(arranged.inputs)
                first_gathered += len(arranged.inputs)
            steps.append(Step(node, first_row, len(arranged.outputs)))
            own.append(arranged.outputs)
            first_row += len(arranged.outputs)
        self._set_items(node, np.concatenate(own))
        if gathered:
            self.items[indexed] = np.concatenate(gathered)
        return steps

    def _set_items(self, node: int, items: np.ndarray) -> None:
        self.items[node] = items
        real = items != NO_ITEM
        if real.all():
            self.row_of_item[items] = self.numbers[: len(items)]
        else:
            self.row_of_item[items[real]] = np.flatnonzero(real)

    def _locate_views(self) -> None:
        """Give views the rows of the nodes under them; a view of a view comes after the view beneath."""
        waiting = [node for node in range(len(self.nodes)) if self.nodes[node].kind is NodeKind.VIEW]
        for _ in range(len(waiting)):
            left = []
            for node in waiting:
                if self.nodes[node].operands[0].node in waiting:
                    left.append(node)
                    continue
                own = slice(self.graph.first[node], self.graph.first[node + 1])
                self.row_of_item[own] = self.row_of_item[self.graph.slots[node][:, 0]]
            waiting = left
            if not waiting:
                return
