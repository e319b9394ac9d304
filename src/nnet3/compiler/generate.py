"""From steps to commands: allocation, forward, marker, backward, deallocation (seeds: nnet3_compilation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3.compiler.descriptor_code import DescriptorCode
from nnet3.compiler.layout import Layout, lay_out
from nnet3.compiler.organize import Schedule
from nnet3.compiler.request import ComputationRequest
from nnet3.components import Component, Properties
from nnet3.computation.commands import (
    AcceptInput,
    AllocMatrix,
    Backprop,
    Command,
    DeallocMatrix,
    Propagate,
    ProvideOutput,
    SegmentMarker,
)
from nnet3.computation.computation import IoInfo, NnetComputation
from nnet3.computation.kernel import KernelInfo
from nnet3.nnet.nodes import ComponentNode
from nnet3.schedule import StepKind

if TYPE_CHECKING:
    from nnet3.nnet import Nnet


def generate(nnet: Nnet, request: ComputationRequest, schedule: Schedule) -> NnetComputation:
    """The program for a schedule, not yet optimized: every matrix lives from the beginning to the end."""
    computation = NnetComputation(need_model_derivative=request.need_model_derivative)
    layout = lay_out(nnet, request, schedule, computation)
    return _Generator(nnet, request, schedule, computation, layout).generate()


class _Generator:
    def __init__(
        self, nnet: Nnet, request: ComputationRequest, schedule: Schedule, computation: NnetComputation, layout: Layout
    ):
        self.nnet, self.request, self.schedule = nnet, request, schedule
        self.computation, self.layout = computation, layout
        self.descriptors = DescriptorCode(nnet, schedule.graph, layout, computation)
        self._kernel_number: dict[str, int] = {}
        self._precomputed: dict[int, int] = {}  # of each step
        self._memo: dict[int, int] = {}

    def generate(self) -> NnetComputation:
        computation, commands = self.computation, self.computation.commands
        self._declare_io()
        forward = [command for position in range(len(self.schedule.steps)) for command in self._forward(position)]
        backward: list[Command] = []
        if self.request.needs_backward:
            for position in reversed(range(len(self.schedule.steps))):
                if self.layout.deriv_needed[position]:
                    backward += self._backward(position)
        declared = self.layout.node_value + self.layout.node_deriv
        owned = [m for m in declared if m and computation.is_whole_matrix(m)]
        commands += [AllocMatrix(matrix, zeroed=True) for matrix in dict.fromkeys(owned)]
        commands += [AcceptInput(io.value, io.name) for io in computation.inputs]
        commands += forward
        commands += [ProvideOutput(io.value, io.name) for io in computation.outputs]
        if self.request.needs_backward:
            commands.append(SegmentMarker())
            commands += [AcceptInput(io.deriv, io.name) for io in computation.outputs if io.deriv]
            commands += backward
            commands += [ProvideOutput(io.deriv, io.name) for io in computation.inputs if io.deriv]
        kept = {self._matrix(io.deriv if self.request.needs_backward else io.value) for io in self._provided_last()}
        commands += [DeallocMatrix(matrix) for matrix in dict.fromkeys(owned) if self._matrix(matrix) not in kept]
        return computation

    def _provided_last(self) -> list[IoInfo]:
        """What the last segment hands to the user: its matrices outlive the program."""
        return self.computation.inputs if self.request.needs_backward else self.computation.outputs

    def _matrix(self, submatrix: int) -> int:
        return self.computation.submatrices[submatrix].matrix

    def _declare_io(self) -> None:
        has_deriv = {io.name: io.has_deriv for io in (*self.request.inputs, *self.request.outputs)}
        for position, step in enumerate(self.schedule.steps):
            if step.kind not in (StepKind.INPUT, StepKind.OUTPUT):
                continue
            name = self.nnet.nodes[step.node].name
            deriv = self.layout.step_deriv[position] if has_deriv[name] else 0
            info = IoInfo(name, self.layout.step_value[position], deriv)
            (self.computation.inputs if step.kind == StepKind.INPUT else self.computation.outputs).append(info)

    # ---- forward ----

    def _forward(self, position: int) -> list[Command]:
        step = self.schedule.steps[position]
        if len(step.items) == 0 or step.kind in (StepKind.INPUT, StepKind.VIEW):
            return []
        value = self.layout.step_value[position]
        if step.kind != StepKind.COMPUTING:
            return self.descriptors.forward(step, value)
        component = self._component(position)
        source = self.layout.step_value[step.source]
        properties = component.properties
        store_stats = self.request.store_component_stats and bool(properties & Properties.STORES_STATS)
        if properties & Properties.USES_MEMO and self.layout.deriv_needed[position]:
            self._memo[position] = self.computation.num_memos
            self.computation.num_memos += 1
        return [
            Propagate(
                self._kernel(position),
                (source,) if source else (),
                value,
                self._precomputed_indexes(position, component),
                self._memo.get(position, -1),
                store_stats,
            )
        ]

    def _component(self, position: int) -> Component:
        node = self.nnet.nodes[self.schedule.steps[position].node]
        assert isinstance(node, ComponentNode)
        return self.nnet.component_of(node)

    def _kernel(self, position: int) -> int:
        node = self.nnet.nodes[self.schedule.steps[position].node]
        assert isinstance(node, ComponentNode)
        if node.component not in self._kernel_number:
            self._kernel_number[node.component] = len(self.computation.kernels)
            self.computation.kernels.append(kernel_info(node.component, self.nnet.component_of(node)))
        return self._kernel_number[node.component]

    def _precomputed_indexes(self, position: int, component: Component) -> int:
        if not component.needs_indexes:
            return 0
        tables = self.schedule.indexes
        plan = component.precompute_indexes(
            tables[self.schedule.steps[position].source],
            tables[position],
            need_backprop=bool(self.layout.deriv_needed[position]),
        )
        self.computation.precomputed.append(plan)
        self._precomputed[position] = len(self.computation.precomputed) - 1
        return self._precomputed[position]

    # ---- backward ----

    def _backward(self, position: int) -> list[Command]:
        step = self.schedule.steps[position]
        if len(step.items) == 0 or step.kind in (StepKind.INPUT, StepKind.VIEW):
            return []
        deriv = self.layout.step_deriv[position]
        if step.kind != StepKind.COMPUTING:
            return self.descriptors.backward(step, deriv)
        component = self._component(position)
        properties = component.properties
        source = self.layout.step_value[step.source]
        updates = self.request.need_model_derivative or not properties & Properties.UPDATABLE
        return [
            Backprop(
                kernel=self._kernel(position),
                node=self.nnet.nodes[step.node].name,
                inputs=(source if properties & Properties.BACKPROP_NEEDS_INPUT else 0,) if source else (),
                output=self.layout.step_value[position] if properties & Properties.BACKPROP_NEEDS_OUTPUT else 0,
                output_deriv=deriv,
                input_derivs=(self.layout.step_deriv[step.source],) if source else (),
                update=updates,
                precomputed=self._precomputed.get(position, 0),
                memo=self._memo.get(position, -1),
            )
        ]


def kernel_info(name: str, component: Component) -> KernelInfo:
    """What passes may know of a component."""
    has = component.properties.__and__
    return KernelInfo(
        name=name,
        updatable=bool(has(Properties.UPDATABLE)),
        rows_can_be_merged=bool(has(Properties.UPDATABLE) and has(Properties.SIMPLE) and not has(Properties.USES_MEMO)),
        backprop_needs_input=bool(has(Properties.BACKPROP_NEEDS_INPUT)),
        backprop_needs_output=bool(has(Properties.BACKPROP_NEEDS_OUTPUT)),
        propagate_in_place=bool(has(Properties.PROPAGATE_IN_PLACE)),
        backprop_in_place=bool(has(Properties.BACKPROP_IN_PLACE)),
        uses_memo=bool(has(Properties.USES_MEMO)),
        stores_stats=bool(has(Properties.STORES_STATS)),
    )
