"""OperandRows: the rows of the operands of each command of a program, with their times."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnet3.engine.families.ragged_regions import UnlikeOperand, names_of_operands
from nnet3.engine.families.ragged_rows import PADDING, BufferVersions, IndexRows, NotRaggedError, RowStart
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import AccessMode, Command, OperandField
from nnet3.engine.ir.kernel import KernelInfo, named_slice


class OperandRows:
    """The starts of all operands among the indexes of all matrices, including operands in buffers for one time step.

    `starts`: for each command the starts of its operands, and of its multi table's sub-matrices.
    """

    def __init__(self, computation: NnetComputation, rows: IndexRows) -> None:
        """`computation`: without Repeat. Raises NotRaggedError."""
        self.computation, self.rows = computation, rows
        self.versions = BufferVersions(computation, rows)
        #: The operands of kernels that have other rows than the output, by command and operand; see `UnlikeOperand`.
        self.unlike: dict[int, dict[int, UnlikeOperand]] = {}
        #: Operands of which kernels take the first rows, as many as there are from this start; by command and operand.
        self.limited: dict[int, dict[int, int]] = {}
        #: Products that are added to rows of which only the first have a product: the start of the factor, by command.
        self.added: dict[int, int] = {}
        self._steps = rows.steps_of_commands(computation.commands)
        self._worked_on: list[tuple[cmd.Propagate | cmd.Backprop, RowStart, int]] = []
        self._of_memos: dict[int, RowStart] = {}  # of the rows that a memo is about
        self.starts = [self._starts(number, command) for number, command in enumerate(computation.commands)]
        self._rows_worked_on = [(each, self.versions.start(start), count) for each, start, count in self._worked_on]

    def _starts(self, of_command: int, command: Command) -> Any:
        """Returns the starts of the operands of a command, and of its multi table's sub-matrices."""
        if isinstance(command, cmd.Propagate | cmd.Backprop):
            return self._starts_of_kernel(of_command, command), {}
        starts, versions = list[RowStart](), self.versions
        for name, declared, _ in command.schema.operand_fields:
            assert isinstance(declared, OperandField)
            number = getattr(command, name)
            if declared.access is AccessMode.WRITE or (declared.access is None and name == "matrix"):
                ends = isinstance(command, cmd.DeallocMatrix)
                starts.append(None if ends else versions.write(number))
            else:
                starts.append(versions.read(number))
        of_table = {}
        if isinstance(command, cmd.CopyRowsMulti | cmd.AddRowsMulti | cmd.AddToRowsMulti):
            numbers = np.unique(self.computation.multi_tables[command.table][:, 0])
            of_table = {number: versions.read(number) for number in numbers[numbers >= 0].tolist()}
        return starts, of_table

    def _starts_of_kernel(self, of_command: int, command: cmd.Propagate | cmd.Backprop) -> list[RowStart]:
        versions = self.versions
        fields = [
            (number, field.declared.access)  # type: ignore[union-attr]
            for field in command.schema.operand_fields
            for number in (getattr(command, field.name) if field.several else (getattr(command, field.name),))
        ]
        is_row_by_row = goes_row_by_row(self.computation.kernels[command.kernel])
        names = names_of_operands(command)
        sides = [is_row_by_row or name.startswith("output") for name in names]
        own = "output" if isinstance(command, cmd.Propagate) else "output_deriv"
        made_of = self.computation.precomputed_rows[command.precomputed - 1].outputs if command.precomputed else None
        # A command reads the old version of a matrix before it writes a new one.
        found: dict[int, RowStart] = {
            i: versions.read(number) for i, (number, access) in enumerate(fields) if access is not AccessMode.WRITE
        }
        found |= {i: versions.write(number) for i, (number, access) in enumerate(fields) if access is AccessMode.WRITE}
        starts = [found[i] for i in range(len(fields))]
        for of_output in (True, False):
            sampled = [i for i, start in enumerate(starts) if start is not None and sides[i] is of_output]
            main = max(
                sampled, key=lambda i: (self._is_of_node(fields[i][0], command.node), names[i] == own), default=0
            )
            count = self.computation.submatrices[fields[main][0]].num_rows
            if main in sampled and made_of is not None and len(made_of) == count and is_row_by_row:
                versions.unify(starts[main], self.rows.of_entries[command.precomputed], count)
            step = self._steps.get(of_command, -1)
            if main in sampled and sides[main] and isinstance(starts[main], tuple) and step >= 0:
                versions.unify(starts[main], step, count)
            if sampled and sides[main]:
                self._worked_on.append((command, starts[main], count))
            if main in sampled and of_output and command.memo >= 0:
                versions.unify(self._of_memos.setdefault(command.memo, starts[main]), starts[main], count)
            for i in sampled:
                if self.computation.submatrices[fields[i][0]].num_rows != count:
                    raise NotRaggedError(f"node {command.node} has operands of different numbers of samples")
                start, first = versions.known(starts[i]), versions.known(starts[main])
                if not isinstance(start, int) or not isinstance(first, int) or self.rows.same(start, first, count):
                    versions.unify(first, start, count)
                elif fields[i][1] is not AccessMode.WRITE and self.rows.begin_alike(first, start, count):
                    self.limited.setdefault(of_command, {})[i] = first
                elif i == 0 and self._adds(command) and self.rows.begin_alike(start, first, count):
                    self.added[of_command] = start
                else:
                    operand = UnlikeOperand(start, first, count, i == 0 and self._adds(command))
                    self.unlike.setdefault(of_command, {})[i] = operand
        return starts

    def _adds(self, command: cmd.Propagate | cmd.Backprop) -> bool:
        """True for a product of some columns that is added to another operand: rows without a factor are that alone."""
        sliced = named_slice(self.computation.kernels[command.kernel].name)
        return isinstance(command, cmd.Propagate) and len(command.inputs) > 1 and sliced is not None and sliced[3]

    def has_rows(self, operand: UnlikeOperand) -> bool:
        """True if an operand has all rows on which its kernel works, or missing rows count as zeros for the kernel."""
        start, output, count, may_lack = operand
        before_end = self.rows.before_end
        return bool(may_lack or (before_end[output : output + count] <= before_end[start : start + count]).all())

    def can_copy(self, operand: UnlikeOperand) -> bool:
        """True if a copy has all these rows of an operand."""
        rows = np.arange(operand.start, operand.start + operand.num_rows)
        return self.has_rows(operand) and self.rows.times_alike(operand.output, rows) is not None

    def _is_of_node(self, number: int, node: str) -> bool:
        info = self.computation.matrix_info.get(self.computation.submatrices[number].matrix)
        return info is not None and info.node == node

    def rows_of_kernels(self, *, apart: bool = False) -> dict[tuple[str, str, str, int], np.ndarray]:
        """Returns how far before the end the rows of the first sequence lie on which each kernel of a node works.

        Keys are the name of the node, the kernel's work ("forward", "backward", or "learn" if it changes anything
        meanwhile), the kernel's name, and if `apart` the operand whose derivative "backward" gives, else -1. Parts of a
        kernel have the whole kernel's rows as well.
        """
        found: dict[tuple[str, str, str, int], list[np.ndarray]] = {}
        for command, start, count in self._rows_worked_on:
            is_forward = isinstance(command, cmd.Propagate)
            learns = command.store_stats if isinstance(command, cmd.Propagate) else command.update
            does = "learn" + " forward" * is_forward if learns else "forward" if is_forward else "backward"
            before_end = self.rows.before_end[start : start + count]
            is_first = (self.rows.n[start : start + count] == 0) & (before_end != PADDING)
            kernel = self.computation.kernels[command.kernel].name
            for operand in _with_derivative(command) if apart and does == "backward" else (-1,):
                found.setdefault((command.node, does, kernel, operand), []).append(before_end[is_first])
        wholes = {(node, does, sliced[0], n) for node, does, kernel, n in found if (sliced := named_slice(kernel))}
        for (node, does, kernel, operand), rows in found.items():
            sliced = named_slice(kernel)
            rows += found.get((node, does, sliced[0], operand), []) if sliced else []
        return {key: np.concatenate(each) for key, each in found.items() if key not in wholes}


def _with_derivative(command: cmd.Propagate | cmd.Backprop) -> list[int]:
    """Returns the operands whose derivative a command computes, [-1] for none."""
    assert isinstance(command, cmd.Backprop)
    pairs = zip(command.input_derivs, command.added_derivs, strict=True)
    return [operand for operand, pair in enumerate(pairs) if any(pair)] or [-1]


def goes_row_by_row(kernel: KernelInfo) -> bool:
    """True if the kernel's inputs and output have the same rows, as operands in shared storage must."""
    return kernel.row_by_row or any(promises.propagate_in_place for promises in kernel.inputs)
