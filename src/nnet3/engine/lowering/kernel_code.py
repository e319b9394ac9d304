"""The commands of kernel nodes: a Propagate and a Backprop for each step, whose updates may be made apart.

Step 3 of the schedule is h(1), row 1 of m5. What Backprop sends to the sum goes to m4, the storage of one row:

>>> from tests.lowering.examples import loop
>>> each = loop()
>>> code = KernelCode(each.computation, each.layout)
>>> for command in (code.forward(3), *code.backward(3)):
...     print(command.text(each.computation))
affine.Propagate(m3(1, :), &m5(1, :)) [node h]
affine.Backprop(m3(1, :), [], m6(1, :), &m4) [node h]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from nnet3.base.index import NO_TIME, T
from nnet3.engine.ir.commands import AddRows, Backprop, Command, MatrixAdd, Propagate
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import KernelInfo
from nnet3.engine.ir.objects import present
from nnet3.engine.ir.program_tables import KernelRows, MatrixInfo
from nnet3.engine.ir.shape_rules import overlap
from nnet3.engine.lowering.layout import Layout
from nnet3.engine.lowering.schedule import Step
from nnet3.engine.lowering.source import Use


@dataclass(eq=False)
class KernelCode:
    """Writes the commands of all kernel nodes."""

    computation: NnetComputation
    layout: Layout
    _kernels: dict[str, int] = field(default_factory=dict)
    _infos: dict[int, KernelInfo] = field(default_factory=dict)
    _operand_rows: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _references: dict[int, tuple[int, int]] = field(default_factory=dict)  # of each step
    _temporary: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source, self.request, self.schedule = self.layout.task
        self.values, self.derivs = self.layout.values, self.layout.derivs
        self.live, self.needed = self.layout.needs.live, self.layout.needs.needed

    def info(self, node: int) -> KernelInfo:
        if node not in self._infos:
            info = self.source.kernel(node)
            is_frozen = info.updatable and info.name in self.request.frozen
            self._infos[node] = replace(info, is_frozen=True) if is_frozen else info
        return self._infos[node]

    # ---- forward ----

    def forward(self, position: int) -> Command:
        step = self.schedule.steps[position]
        info = self.info(step.node)
        return Propagate(
            self.kernel_number(info),
            self.schedule.nodes[step.node].name,
            self._inputs(position, step),
            self.values.block(*step),
            *self.references(position),
            self.request.store_component_stats and info.stores_stats and self.live.hull(step) is not None,
        )

    def references(self, position: int) -> tuple[int, int]:
        """Returns the precomputed entry and the memo that a step's Propagate and Backprop share."""
        found = self._references.get(position)
        if found is None:
            step, memo = self.schedule.steps[position], -1
            info = self.info(step.node)
            if info.uses_memo and self.needed[step.node] and self.live.hull(step) is not None:
                memo = self.computation.num_memos
                self.computation.num_memos += 1
            found = self._references[position] = self._precompute(position) if info.needs_indexes else 0, memo
        return found

    def _inputs(self, position: int, rows: Step) -> tuple[int, ...]:
        operands = self.schedule.nodes[rows.node].operands
        return tuple([self.values.block(*self._operand_step(position, rows, i)) for i in range(len(operands))])

    def _operand_step(self, position: int, step: Step, number: int) -> Step:
        """Returns the rows of operand `number` that `step`, all rows or some of the step at this position, reads."""
        operand = self.schedule.nodes[step.node].operands[number]
        if operand.use is Use.ROW:
            key = step.node, number
            rows = self._operand_rows.get(key)
            if rows is None:
                rows = self._operand_rows[key] = self.schedule.operand_rows(step.node, number).tolist()
            return Step(operand.node, rows[step.first], step.num_rows)
        if operand.use is Use.INDEXED:
            return self.schedule.steps[position - 1]
        return self.schedule.whole(operand.node)

    def kernel_number(self, info: KernelInfo) -> int:
        if info.name not in self._kernels:
            self._kernels[info.name] = len(self.computation.kernels)
            self.computation.kernels.append(info)
        return self._kernels[info.name]

    def _precompute(self, position: int) -> int:
        step = self.schedule.steps[position]
        node = self.schedule.nodes[step.node]
        outputs = inputs = self.schedule.step_indexes(step)
        if not node.operands:
            inputs = outputs[:0]
        elif node.operands[0].use is Use.INDEXED:
            inputs = self.schedule.step_indexes(self.schedule.steps[position - 1])
        runs_backward = bool(self.needed[step.node])
        arrays = self.source.precompute(step.node, inputs, outputs, need_backprop=runs_backward)
        if arrays is None:
            return 0
        self.computation.precomputed.append(arrays)
        self.computation.precomputed_rows.append(
            KernelRows(node.name, runs_backward, inputs, outputs, self.info(step.node).indexes_go_on)
        )
        return len(self.computation.precomputed) - 1

    # ---- backward ----

    def backward(self, position: int) -> Iterator[Command]:
        """Yields the Backprop of a step, with the update unless it is merged, and the commands that add results."""
        step = self.live.worked_on(self.schedule.steps[position])
        if step is None:
            return
        node, info = self.schedule.nodes[step.node], self.info(step.node)
        is_merged = step.node in self.layout.needs.merged
        update = not is_merged and (not info.updatable or self.request.updates(info))
        written, added = [0] * len(node.operands), [0] * len(node.operands)
        sums, blocks = list[Command](), self.computation.submatrices
        for number, operand in enumerate(node.operands):
            if not self.needed[operand.node] or (is_merged and operand.use is Use.WHOLE):
                continue
            taken = self._operand_step(position, step, number)
            dest = self.derivs.block(*taken)
            if not self.live.is_whole(taken) and not self.live.is_cut(step.node):
                if self.live.hull(taken) is not None:
                    written[number] = self._temporary_like(dest, step.node, number)
                    sums.append(self._add_live(taken, written[number]))
                continue
            # Two derivatives overlap where a kernel uses a value twice: they cannot share storage.
            is_apart = not any(other and overlap(blocks[dest], blocks[other]) for other in (*written, *added))
            if is_apart and self._overwrites(position, number):
                written[number] = dest
            elif is_apart and info.inputs[number].accumulates_deriv:
                added[number] = dest
            else:
                written[number] = self._temporary_like(dest, step.node, number)
                sums.append(MatrixAdd(dest, written[number]))
        if not (update or any(written) or any(added)):
            return
        yield self._backprop(position, step, tuple(written), tuple(added), update=update)
        yield from sums

    def _overwrites(self, position: int, operand: int) -> bool:
        """True if a step is the first that writes to the derivative of an operand."""
        by_step = self.layout.writers.operands[self.schedule.steps[position].node, operand]
        return by_step[self.layout.step_numbers[position]]

    def _add_live(self, rows: Step, deriv: int) -> Command:
        """Returns the command that adds `deriv` to the derivative of the live rows among these rows."""
        hull, live = present(self.live.hull(rows)), self.live.rows(rows.node)
        m = self.schedule.multiplicity(self.schedule.seen(rows.node))
        dest = self.derivs.block(*hull)
        own = self.computation.new_submatrix(deriv, (hull.first - rows.first) * m, hull.num_rows * m)
        if self.live.is_whole(hull):
            return MatrixAdd(dest, own)
        taken = np.repeat(live[hull.first : hull.first + hull.num_rows], m)
        return AddRows(dest, own, self.computation.new_index_table(np.where(taken, np.arange(len(taken)), -1)))

    def _temporary_like(self, dest: int, node: int, number: int) -> int:
        """Returns a matrix for a derivative that a kernel cannot add in place, one matrix for all steps of a size."""
        block = self.computation.submatrices[dest]
        key = node, number, block.num_rows
        if key not in self._temporary:
            known = self.computation.matrix_info.get(block.matrix)
            indexes = None if known is None else known.indexes
            if indexes is not None:  # of all steps that use it: no time is theirs
                indexes = indexes[block.row_offset : block.row_offset + block.num_rows].copy()
                indexes[:, T] = NO_TIME
            info = MatrixInfo(self.schedule.nodes[node].name, True, indexes)
            self._temporary[key] = self.computation.new_matrix(block.num_rows, block.num_cols, info)
        return self._temporary[key]

    def _backprop(
        self, position: int, step: Step, written: tuple[int, ...], added: tuple[int, ...], *, update: bool
    ) -> Backprop:
        info = self.info(step.node)
        inputs = self._inputs(position, step)
        wanted = tuple([v if p.backprop_needs_value else 0 for v, p in zip(inputs, info.inputs, strict=True)])
        return Backprop(
            self.kernel_number(info),
            self.schedule.nodes[step.node].name,
            wanted,
            self.values.block(*step) if info.backprop_needs_output else 0,
            self.derivs.block(*step),
            written,
            added,
            update,
            *self.references(position),
        )
