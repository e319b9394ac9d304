"""Makes commands of steps: allocation, forward, marker, backward, deallocation.

>>> from tests.lowering.examples import splice
>>> each = splice()
>>> print(generate(each.source, each.request, each.schedule))
# 6 matrices, 23 commands, 2 segments
m1(5, 2) == value: x [ (0, -1:3) ]
m2(5, 2) == derivative: x [ (0, -1:3) ]
m3(4, 4) == value: y_input [ (0, 0:3) ]
m4(4, 4) == derivative: y_input [ (0, 0:3) ]
m5(4, 3) == value: y [ (0, 0:3) ]
m6(4, 3) == derivative: y [ (0, 0:3) ]
c0: m1 = undefined(5, 2)
c1: m2 = undefined(5, 2)
c2: m3 = undefined(4, 4)
c3: m4 = undefined(4, 4)
c4: m5 = undefined(4, 3)
c5: m6 = undefined(4, 3)
c6: m1 = user input [for node: 'x']
c7: m3(:, 0:1) = m1(0:3, :)
c8: m3(:, 2:3) = m1(1:4, :)
c9: affine.Propagate(m3, &m5) [node y]
c10: output m5 to user [for node: 'output']
c11: [end of segment]
c12: m6 = user input [for node: 'output']
c13: affine.Backprop(m3, [], m6, &m4) [node y, update]
c14: m2(0:3, :) = m4(:, 0:1)
c15: m2(1:3, :) += m4(0:2, 2:3)
c16: m2(4, :) = m4(3, 2:3)
c17: output m2 to user [for node: 'x']
c18: m1 = []
c19: m3 = []
c20: m4 = []
c21: m5 = []
c22: m6 = []
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nnet3.engine.ir.commands import (
    AcceptInput,
    AddRows,
    AllocMatrix,
    Command,
    CopyRows,
    DeallocMatrix,
    MatrixAdd,
    MatrixCopy,
    ProvideOutput,
    SegmentMarker,
    SetConst,
)
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import IoInfo, MatrixInfo
from nnet3.engine.lowering.first_writers import TakenRows
from nnet3.engine.lowering.gather import GatherCode
from nnet3.engine.lowering.kernel_code import KernelCode
from nnet3.engine.lowering.layout import lay_out
from nnet3.engine.lowering.needs import last_pieces
from nnet3.engine.lowering.requested import output_block, user_rows
from nnet3.engine.lowering.schedule import LayoutTask, Schedule, Step
from nnet3.engine.lowering.source import GraphSource, LoweringRequest, NodeKind, RequestedRows
from nnet3.engine.lowering.updates import UpdateCode

_MOST_BLOCKS = 6  # that are cleared one by one, before a matrix is cleared as a whole


def generate(source: GraphSource, request: LoweringRequest, schedule: Schedule) -> NnetComputation:
    """Returns the program for a schedule, not yet optimized: every matrix lives from the beginning to the end."""
    computation = NnetComputation(need_model_derivative=request.need_model_derivative)
    return _Generator(source, request, schedule, computation).generate()


class _Generator:
    def __init__(
        self, source: GraphSource, request: LoweringRequest, schedule: Schedule, computation: NnetComputation
    ) -> None:
        self.request, self.schedule, self.computation = request, schedule, computation
        self.layout = layout = lay_out(LayoutTask(source, request, schedule), computation)
        self.values, self.derivs, self.live = layout.values, layout.derivs, layout.needs.live
        gathered, sent = layout.reading.gathered, layout.needs.sent
        self.gathers = {node: GatherCode(computation, each, self.values) for node, each in gathered.items()}
        self.senders = {
            node: self.gathers[node] if each is gathered[node] else GatherCode(computation, each, self.values)
            for node, each in sent.items()
        }
        self.kernels = KernelCode(computation, layout)
        updates = layout.needs.updates
        self._last_updates = [nodes for nodes in updates.values() if source.kernel(nodes[0]).learns_last]
        early = {learner: nodes for learner, nodes in updates.items() if nodes not in self._last_updates}
        self._updates_after = last_pieces(schedule, early)
        self._cleared: set[int] = set()  # derivative matrices that the commands so far have touched
        self._sent_from: set[int] = set()  # nodes that have sent derivatives back
        self._zeroed: set[int] = set()  # matrices that must begin as zeros

    def generate(self) -> NnetComputation:
        computation, request = self.computation, self.request
        accepts, provides = self._inputs(), self._outputs()
        forward = [*accepts, *self._forward_all(), *provides]
        backward = [*self._output_derivs(), *self._backward_all()] if request.needs_backward else []
        handed_out = {c.source for c in (backward or forward) if isinstance(c, ProvideOutput)}
        kept = {computation.submatrices[number].matrix for number in handed_out}
        owned = self._owned(forward, backward)
        computation.commands += [AllocMatrix(whole, zeroed=whole in self._zeroed) for whole in owned]
        computation.commands += forward
        if request.needs_backward:
            computation.commands += [SegmentMarker(), *backward]
        matrix_of = computation.submatrices
        computation.commands += [DeallocMatrix(whole) for whole in owned if matrix_of[whole].matrix not in kept]
        return computation

    def _owned(self, forward: list[Command], backward: list[Command]) -> list[int]:
        """Returns all matrices that no command allocates on the way, as sub-matrices that are whole."""
        matrix_of = self.computation.submatrices
        excluded = {matrix_of[each.submatrix].matrix for each in self.computation.outside}
        excluded |= {matrix_of[c.matrix].matrix for c in (*forward, *backward) if isinstance(c, AllocMatrix)}
        numbers = range(1, len(self.computation.matrices))
        return [self.computation.whole_matrix(number) for number in numbers if number not in excluded]

    # ---- the outside world ----

    def _inputs(self) -> list[Command]:
        """Returns the commands for accepting inputs, in the user's order of rows, with a copy where orders differ."""
        accepts: list[Command] = []
        copies: list[Command] = []
        for io in self.request.inputs:
            value = self.values.block(io.node, 0, self.schedule.num_given[io.node])
            rows = user_rows(self.schedule, self.request, io)
            number = value if rows is None else self._user_matrix(io, value, is_deriv=False)
            accepts.append(AcceptInput(number, io.name))
            if rows is not None:
                copies.append(CopyRows(value, number, self.computation.new_index_table(np.argsort(rows))))
            self.computation.inputs.append(IoInfo(io.name, number, 0))
        return accepts + copies

    def _outputs(self) -> list[Command]:
        copies: list[Command] = []
        provides: list[Command] = []
        for io in self.request.outputs:
            value = self.values.block(*output_block(self.schedule, io))
            rows = user_rows(self.schedule, self.request, io)
            number = value if rows is None else self._user_matrix(io, value, is_deriv=False)
            if rows is not None:
                copies.append(CopyRows(number, value, self.computation.new_index_table(rows)))
            provides.append(ProvideOutput(number, io.name))
            self.computation.outputs.append(IoInfo(io.name, number, 0))
        return copies + provides

    def _output_derivs(self) -> list[Command]:
        accepts: list[Command] = []
        copies: list[Command] = []
        for position, io in enumerate(self.request.outputs):
            taken = self.layout.writers.taken[position] if self.layout.writers.taken else None
            if taken is None:
                if io.has_deriv:
                    accepts.append(self._unused_deriv(position, io))
                continue
            deriv, overwrites = self.derivs.block(*taken.rows), self.layout.writers.outputs[position]
            table = self._taken_table(io, taken)
            is_all = taken.rows.num_rows == output_block(self.schedule, io).num_rows
            if table is None and is_all and overwrites:
                number = own = deriv
            else:
                number = self._user_matrix(io, deriv, is_deriv=True)
                own = number if is_all or table is not None else self._part(io, number, taken.rows)
            accepts.append(AcceptInput(number, io.name))
            copies += self._clear(io.node)
            if table is not None:
                copies.append(CopyRows(deriv, number, table) if overwrites else AddRows(deriv, number, table))
            elif own != deriv:
                copies.append(MatrixCopy(deriv, own) if overwrites else MatrixAdd(deriv, own))
            self.computation.outputs[position] = IoInfo(io.name, self.computation.outputs[position].value, number)
        return accepts + copies

    def _taken_table(self, io: RequestedRows, taken: TakenRows) -> int | None:
        """Returns a table of the user's row for each row that takes a derivative (-1: none); None if in order."""
        _, first, count = output_block(self.schedule, io)
        rows, m = user_rows(self.schedule, self.request, io), self.schedule.multiplicity(self.schedule.seen(io.node))
        if rows is None and not taken.masked:
            return None
        users = np.full(count * m, -1)
        if rows is None:
            users = np.arange(count * m)
        else:
            users[rows] = np.arange(len(rows))
        if taken.masked:
            users[np.repeat(~self.live.rows(io.node)[first : first + count], m)] = -1
        low = (taken.rows.first - first) * m
        return self.computation.new_index_table(users[low : low + taken.rows.num_rows * m])

    def _part(self, io: RequestedRows, number: int, rows: Step) -> int:
        """Returns the given rows of the user's matrix, whose rows are in order."""
        m = self.schedule.multiplicity(self.schedule.seen(io.node))
        low = (rows.first - output_block(self.schedule, io).first) * m
        return self.computation.new_submatrix(number, low, rows.num_rows * m)

    def _unused_deriv(self, position: int, io: RequestedRows) -> Command:
        """Returns the command for accepting a given but unneeded derivative."""
        value = self.computation.outputs[position].value
        number = self._user_matrix(io, value, is_deriv=True)
        self.computation.outputs[position] = IoInfo(io.name, value, number)
        return AcceptInput(number, io.name)

    def _input_derivs(self) -> list[Command]:
        copies: list[Command] = []
        provides: list[Command] = []
        for position, io in enumerate(self.request.inputs):
            if not io.has_deriv:
                continue
            copies += self._clear(io.node)
            deriv = self.derivs.block(io.node, 0, self.schedule.num_given[io.node])
            rows = user_rows(self.schedule, self.request, io)
            number = deriv if rows is None else self._user_matrix(io, deriv, is_deriv=True)
            if rows is not None:
                copies.append(CopyRows(number, deriv, self.computation.new_index_table(rows)))
            provides.append(ProvideOutput(number, io.name))
            self.computation.inputs[position] = IoInfo(io.name, self.computation.inputs[position].value, number)
        return copies + provides

    def _user_matrix(self, io: RequestedRows, like: int, *, is_deriv: bool) -> int:
        block = self.computation.submatrices[like]
        info = MatrixInfo(io.name, is_deriv, io.indexes if len(io.indexes) else None)
        rows = len(io.indexes) or block.num_rows
        return self.computation.new_matrix(rows, block.num_cols, info)

    # ---- steps ----

    def _forward_all(self) -> list[Command]:
        commands: list[Command] = []
        for position, (node, _, _) in enumerate(self.schedule.steps):
            if node in self.gathers:
                if node not in self.layout.reading.views:
                    commands += self.gathers[node].forward(self.layout.step_numbers[position])
            elif self.schedule.nodes[node].kind is NodeKind.KERNEL:
                commands.append(self.kernels.forward(position))
        return commands

    def _backward_all(self) -> Iterator[Command]:
        for position in reversed(range(len(self.schedule.steps))):
            yield from self._backward(position)
        for nodes in self._last_updates:
            yield from UpdateCode(self.kernels, nodes).update()
        for node, each in enumerate(self.schedule.nodes):
            if each.gradient and self.layout.needs.needed[node] and self.schedule.num_rows(node):
                yield from self._clear(node)  # where nobody has sent anything
        yield from self._input_derivs()

    def _backward(self, position: int) -> Iterator[Command]:
        node = self.schedule.steps[position].node
        if not self.layout.needs.needed[node]:
            return
        if node not in self._sent_from:
            self._sent_from.add(node)
            for target in (node, *self.layout.receivers(node)):
                yield from self._clear(target)
        if node not in self.gathers:
            yield from self.kernels.backward(position)
        elif node not in self.layout.writers.views:
            overwrites = self.layout.writers.slots.get(node, {})
            number = self.layout.step_numbers[position]
            yield from self.senders[node].backward(number, self.derivs, overwrites, self.layout.needs.needed)
        for learner in self._updates_after.get(position, ()):
            yield from UpdateCode(self.kernels, self.layout.needs.updates[learner]).update()

    def _clear(self, node: int) -> Iterator[Command]:
        """Yields the commands that, before a derivative is first touched, set to zero what nobody overwrites."""
        root = self.derivs.storage[node].root
        if root in self._cleared:
            return
        self._cleared.add(root)
        if self.schedule.nodes[root].adds_to_memory:
            return  # gradients of bound memory accumulate where they lie
        blocks = self.layout.writers.blocks_to_clear(root)
        whole, m = self.derivs.matrix[root], self.schedule.multiplicity(root)
        if blocks is None or len(blocks) > _MOST_BLOCKS:
            if self.schedule.nodes[root].gradient:
                yield SetConst(whole, 0.0)  # nobody allocates it
            else:
                self._zeroed.add(whole)
            return
        for first, count, column, num_cols in blocks:
            yield SetConst(self.computation.new_submatrix(whole, first * m, count * m, column, num_cols), 0.0)
