"""One update a kernel and minibatch: part of the meaning of a computation, for natural gradient looks at rows together.

A kernel runs backward in pieces if several nodes share it or if it lies in a recurrence. The pieces send derivatives
on; what the kernel learns, and the derivatives of its operands without samples, come from one Backprop on the rows of
all pieces, after the last of them. The rows of one node need no copying, for its steps follow each other in one matrix.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from nnet3.computation.commands import AllocMatrix, Backprop, Command, DeallocMatrix, MatrixCopy
from nnet3.computation.computation import MatrixInfo
from nnet3.lowering.kernel_code import KernelCode
from nnet3.lowering.live_rows import LiveRows
from nnet3.lowering.places import Storage
from nnet3.lowering.schedule import Schedule, Step
from nnet3.lowering.source import GraphSource, LoweringRequest, NodeKind, Use

Learner = tuple[str, tuple[int, ...]]
"""The name of a kernel and its operands without samples, which learn with it."""


def merged_updates(
    source: GraphSource, request: LoweringRequest, schedule: Schedule, needed: np.ndarray, live: LiveRows
) -> dict[Learner, list[int]]:
    """Kernels that learn from several steps together, and their nodes."""
    nodes: dict[Learner, list[int]] = defaultdict(list)
    for number, node in enumerate(schedule.nodes):
        if node.kind is not NodeKind.KERNEL or not needed[number] or not schedule.steps_of_node[number]:
            continue
        if live.worked_on(_own_rows(schedule, number)) is None:
            continue
        info = source.kernel(number)
        whole = any(o.use is Use.WHOLE and needed[o.node] for o in node.operands)
        rows_only = all(
            o.use is Use.ROW or (o.use is Use.WHOLE and promises.accumulates_deriv)
            for o, promises in zip(node.operands, info.inputs, strict=True)
        )
        if info.merges_updates and rows_only and ((info.updatable and request.need_model_derivative) or whole):
            whole_operands = tuple(operand.node for operand in node.operands if operand.use is Use.WHOLE)
            nodes[info.name, whole_operands].append(number)
    return {
        learner: numbers
        for learner, numbers in nodes.items()
        if sum(len(schedule.steps_of_node[number]) for number in numbers) > 1
    }


def _own_rows(schedule: Schedule, node: int) -> Step:
    """The rows of a node that its kernel computes."""
    given = schedule.num_given[node]
    return Step(node, given, schedule.num_rows(node) - given)


def last_pieces(schedule: Schedule, groups: dict[Learner, list[int]]) -> dict[int, list[Learner]]:
    """After which step of the backward pass (the first going forward) each update comes."""
    result: dict[int, list[Learner]] = defaultdict(list)
    for learner, nodes in groups.items():
        result[min(schedule.steps_of_node[node][0] for node in nodes)].append(learner)
    return result


class UpdateCode:
    """Writes the update of one kernel from all steps of its nodes."""

    def __init__(self, code: KernelCode, nodes: list[int]) -> None:
        self.code, self.nodes = code, nodes
        self.schedule, self.computation = code.schedule, code.computation
        worked_on = [code.live.worked_on(_own_rows(self.schedule, number)) for number in nodes]
        self._rows = [rows for rows in worked_on if rows is not None]

    def update(self) -> Iterator[Command]:
        code, node = self.code, self.schedule.nodes[self.nodes[0]]
        info = code.info(self.nodes[0])
        self._collected: list[int] = []
        copies: list[Command] = []
        deriv = self._together(code.derivs, self._rows, copies)
        output = self._together(code.values, self._rows, copies) if info.backprop_needs_output else 0
        inputs, added = [], []
        for number, operand in enumerate(node.operands):
            if operand.use is Use.WHOLE:
                whole = self.schedule.whole(operand.node)
                inputs.append(code.values.block(*whole) if info.inputs[number].backprop_needs_value else 0)
                added.append(code.derivs.block(*whole) if code.needed[operand.node] else 0)
                continue
            pieces = [piece for rows in self._rows for piece in self._operand_pieces(rows, number)]
            needs_value = info.inputs[number].backprop_needs_value
            inputs.append(self._together(code.values, pieces, copies) if needs_value else 0)
            added.append(0)
        yield from copies
        names = {self.schedule.nodes[rows.node].name for rows in self._rows}
        written = self._overwritten(added)
        yield Backprop(
            code.kernel_number(info),
            names.pop() if len(names) == 1 else info.name,
            tuple(inputs),
            output,
            deriv,
            tuple(written),
            tuple(0 if w else a for a, w in zip(added, written, strict=True)),
            info.updatable and code.request.need_model_derivative,
        )
        yield from (DeallocMatrix(matrix) for matrix in self._collected)

    def _overwritten(self, added: list[int]) -> list[int]:
        """Which of the derivatives without samples nobody has written before."""
        node = self.nodes[0]
        result = [0] * len(added)
        for number, dest in enumerate(added):
            if dest and self.code.overwrites[node, number][0]:
                result[number] = dest
        return result

    def _operand_pieces(self, own: Step, number: int) -> list[Step]:
        """The rows of an operand for these rows of a node, in runs."""
        rows = self.schedule.operand_rows(own.node, number)[own.first : own.first + own.num_rows]
        cuts = np.flatnonzero(np.diff(rows) != 1) + 1
        operand = self.schedule.nodes[own.node].operands[number].node
        return [Step(operand, int(run[0]), len(run)) for run in np.split(rows, cuts)]

    def _together(self, storage: Storage, pieces: list[Step], copies: list[Command]) -> int:
        """One sub-matrix of all the pieces: where they lie, or where they are copied to."""
        if len(pieces) == 1:
            return storage.block(*pieces[0])
        blocks = [storage.block(*piece) for piece in pieces]
        sizes = [self.computation.submatrices[block] for block in blocks]
        names = dict.fromkeys(self.schedule.nodes[piece.node].name for piece in pieces)
        tables = [self.schedule.step_indexes(piece) for piece in pieces]
        info = MatrixInfo("+".join(names), storage.is_deriv, np.concatenate(tables))
        whole = self.computation.new_matrix(sum(size.num_rows for size in sizes), sizes[0].num_cols, info)
        self._collected.append(whole)
        copies.append(AllocMatrix(whole, zeroed=False))
        row = 0
        for block, size in zip(blocks, sizes, strict=True):
            copies.append(MatrixCopy(self.computation.new_submatrix(whole, row, size.num_rows), block))
            row += size.num_rows
        return whole
