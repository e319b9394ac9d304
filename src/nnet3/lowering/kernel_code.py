"""The commands of kernel nodes: one Propagate a step, one Backprop a step, and one update for several steps together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from nnet3.computation.commands import AllocMatrix, Backprop, Command, DeallocMatrix, MatrixAdd, Propagate
from nnet3.computation.computation import NnetComputation
from nnet3.computation.kernel import KernelInfo
from nnet3.lowering.places import Storage
from nnet3.lowering.schedule import Schedule, Step, operand_rows
from nnet3.lowering.source import GraphSource, LoweringRequest, Use


@dataclass(eq=False)
class KernelCode:
    """Writes the commands of all kernel nodes. `overwrites[node, operand]` says it of each step."""

    source: GraphSource
    request: LoweringRequest
    schedule: Schedule
    computation: NnetComputation
    values: Storage
    derivs: Storage
    needed: np.ndarray
    step_number: Callable[[int], int]
    overwrites: Mapping[tuple[int, int], list[bool]] = field(default_factory=dict)
    merged: frozenset[int] = frozenset()  # nodes whose updates are made together, after all their steps
    _kernels: dict[str, int] = field(default_factory=dict)
    _infos: dict[int, KernelInfo] = field(default_factory=dict)
    _operand_rows: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _precomputed: dict[int, int] = field(default_factory=dict)  # of each step
    _memo: dict[int, int] = field(default_factory=dict)

    def info(self, node: int) -> KernelInfo:
        if node not in self._infos:
            self._infos[node] = self.source.kernel(node)
        return self._infos[node]

    # ---- forward ----

    def forward(self, position: int) -> Iterator[Command]:
        step = self.schedule.steps[position]
        info = self.info(step.node)
        inputs = self._inputs(position)
        if info.uses_memo and self.needed[step.node]:
            self._memo[position] = self.computation.num_memos
            self.computation.num_memos += 1
        yield Propagate(
            self.kernel_number(info),
            self.schedule.nodes[step.node].name,
            inputs,
            self.values.block(*step),
            self._precompute(position),
            self._memo.get(position, -1),
            self.request.store_component_stats and info.stores_stats,
        )

    def _inputs(self, position: int) -> tuple[int, ...]:
        operands = self.schedule.nodes[self.schedule.steps[position].node].operands
        return tuple([self.values.block(*self._operand_step(position, number)) for number in range(len(operands))])

    def _operand_step(self, position: int, number: int) -> Step:
        """The rows of operand `number` that the step at this position reads."""
        step = self.schedule.steps[position]
        operand = self.schedule.nodes[step.node].operands[number]
        if operand.use is Use.INDEXED:
            return self.schedule.steps[position - 1]
        if operand.use is not Use.ROW:
            return Step(operand.node, 0, self.schedule.num_rows(operand.node))
        key = step.node, number
        if key not in self._operand_rows:
            self._operand_rows[key] = operand_rows(self.schedule, step.node, number).tolist()
        return Step(operand.node, self._operand_rows[key][step.first], step.count)

    def kernel_number(self, info: KernelInfo) -> int:
        if info.name not in self._kernels:
            self._kernels[info.name] = len(self.computation.kernels)
            self.computation.kernels.append(info)
        return self._kernels[info.name]

    def _precompute(self, position: int) -> int:
        step = self.schedule.steps[position]
        if not self.info(step.node).needs_indexes:
            return 0
        operands = self.schedule.nodes[step.node].operands
        outputs = inputs = self.schedule.step_indexes(step)
        if not operands:
            inputs = outputs[:0]
        elif operands[0].use is Use.INDEXED:
            inputs = self.schedule.step_indexes(self.schedule.steps[position - 1])
        arrays = self.source.precompute(step.node, inputs, outputs, need_backprop=bool(self.needed[step.node]))
        if arrays is None:
            return 0
        self.computation.precomputed.append(arrays)
        self._precomputed[position] = len(self.computation.precomputed) - 1
        return self._precomputed[position]

    # ---- backward ----

    def backward(self, position: int) -> Iterator[Command]:
        """The derivatives of a step's operands, and what it learns unless that is done together with other steps."""
        step = self.schedule.steps[position]
        node, info = self.schedule.nodes[step.node], self.info(step.node)
        is_merged = step.node in self.merged
        update = not is_merged and (not info.updatable or self.request.need_model_derivative)
        written, added = [0] * len(node.operands), [0] * len(node.operands)
        sums: list[tuple[int, int]] = []
        for number, operand in enumerate(node.operands):
            if not self.needed[operand.node] or (is_merged and operand.use is Use.WHOLE):
                continue
            dest = self.derivs.block(*self._operand_step(position, number))
            if self.overwrites[step.node, number][self.step_number(position)]:
                written[number] = dest
            elif info.inputs[number].accumulates_deriv:
                added[number] = dest
            else:
                block = self.computation.submatrices[dest]
                written[number] = self.computation.new_matrix(block.num_rows, block.num_cols)
                sums.append((dest, written[number]))
        if not (update or any(written) or any(added)):
            return
        yield from (AllocMatrix(own, zeroed=False) for _, own in sums)
        yield self._backprop(position, tuple(written), tuple(added), update=update)
        for dest, own in sums:
            yield MatrixAdd(dest, own)
            yield DeallocMatrix(own)

    def _backprop(
        self, position: int, written: tuple[int, ...], added: tuple[int, ...], *, update: bool
    ) -> Backprop:
        step = self.schedule.steps[position]
        info = self.info(step.node)
        inputs = self._inputs(position)
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
            self._precomputed.get(position, 0),
            self._memo.get(position, -1),
        )
