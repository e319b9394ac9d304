"""The commands of merged updates.

A kernel's update, and the derivatives of the kernel's operands without samples, come from one Backprop on the rows of
all pieces, after the last piece. The rows of one node need no copying, for the node's steps follow one another in one
matrix:

>>> from tests.lowering.examples import loop
>>> each = loop()
>>> for command in UpdateCode(KernelCode(each.computation, each.layout), [2]).update():
...     print(command.text(each.computation))
affine.Backprop(m3, [], m6, []) [node h, update]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nnet3.engine.ir.commands import AllocMatrix, Backprop, Command, DeallocMatrix, MatrixCopy
from nnet3.engine.ir.program_tables import MatrixInfo
from nnet3.engine.lowering.kernel_code import KernelCode
from nnet3.engine.lowering.locations import NodeMatrices
from nnet3.engine.lowering.schedule import Step
from nnet3.engine.lowering.source import Use


class UpdateCode:
    """Writes the update of a kernel from all steps of the kernel's nodes."""

    def __init__(self, code: KernelCode, nodes: list[int]) -> None:
        self.code, self.nodes = code, nodes
        self.schedule, self.computation = code.schedule, code.computation
        self.values, self.derivs, self.needs = code.layout.values, code.layout.derivs, code.layout.needs
        self._rows = [rows for number in nodes for rows in self.needs.live.updated(number)]

    def update(self) -> Iterator[Command]:
        code, node = self.code, self.schedule.nodes[self.nodes[0]]
        info = code.info(self.nodes[0])
        self._collected: list[int] = []
        copies: list[Command] = []
        deriv = self._together(self.derivs, self._rows, copies)
        output = self._together(self.values, self._rows, copies) if info.backprop_needs_output else 0
        inputs, added = [], []
        for number, operand in enumerate(node.operands):
            if operand.use is Use.WHOLE:
                whole = self.schedule.whole(operand.node)
                inputs.append(self.values.block(*whole) if info.inputs[number].backprop_needs_value else 0)
                added.append(self.derivs.block(*whole) if self.needs.needed[operand.node] else 0)
                continue
            pieces = [piece for rows in self._rows for piece in self._operand_pieces(rows, number)]
            needs_value = info.inputs[number].backprop_needs_value
            inputs.append(self._together(self.values, pieces, copies) if needs_value else 0)
            added.append(0)
        yield from copies
        names = {self.schedule.nodes[rows.node].name for rows in self._rows}
        writers, node_number = code.layout.writers.operands, self.nodes[0]  # what nobody has written is overwritten
        written = [dest if dest and writers[node_number, i][0] else 0 for i, dest in enumerate(added)]
        yield Backprop(
            code.kernel_number(info),
            names.pop() if len(names) == 1 else info.name,
            tuple(inputs),
            output,
            deriv,
            tuple(written),
            tuple(0 if w else a for a, w in zip(added, written, strict=True)),
            code.request.updates(info),
        )
        yield from (DeallocMatrix(matrix) for matrix in self._collected)

    def _operand_pieces(self, own: Step, number: int) -> list[Step]:
        """Returns the rows of an operand for these rows of a node, in runs."""
        rows = self.schedule.operand_rows(own.node, number)[own.first : own.first + own.num_rows]
        cuts = np.flatnonzero(np.diff(rows) != 1) + 1
        operand = self.schedule.nodes[own.node].operands[number].node
        return [Step(operand, int(run[0]), len(run)) for run in np.split(rows, cuts)]

    def _together(self, matrices: NodeMatrices, pieces: list[Step], copies: list[Command]) -> int:
        """Returns one sub-matrix of all pieces: the storage of the pieces, or of their copies."""
        if len(pieces) == 1:
            return matrices.block(*pieces[0])
        blocks = [matrices.block(*piece) for piece in pieces]
        sizes = [self.computation.submatrices[block] for block in blocks]
        names = dict.fromkeys(self.schedule.nodes[piece.node].name for piece in pieces)
        tables = [self.schedule.step_indexes(piece) for piece in pieces]
        info = MatrixInfo("+".join(names), matrices.is_deriv, np.concatenate(tables))
        whole = self.computation.new_matrix(sum(size.num_rows for size in sizes), sizes[0].num_cols, info)
        self._collected.append(whole)
        copies.append(AllocMatrix(whole, zeroed=False))
        row = 0
        for block, size in zip(blocks, sizes, strict=True):
            copies.append(MatrixCopy(self.computation.new_submatrix(whole, row, size.num_rows), block))
            row += size.num_rows
        return whole
