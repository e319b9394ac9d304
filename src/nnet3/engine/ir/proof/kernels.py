"""Kernels as random functions of their declared dependencies, linear where declared linear.

Block o of the output of a kernel affine in input x, with row r computed from the inputs' rows r alone, is

    y[r, o] = sum_b W[b, o] x[r, b] + f[o](other inputs of row r)

with random W and f. For any kernel, if its backward pass is linear in the derivative, the backward pass is

    dx[r, b] = v(r) sum_o W[b, o] dy[r, o]           v(r): a random function of the values needed by the backward pass
    learned += v'(r) sum_o U[o] dy[r, o]

Where rows depend on further rows, a random function of all rows comes in, forward and backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnet3.engine.ir.kernel import KernelInfo
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import ColumnSpan
from nnet3.engine.ir.proof.field import Elements, reduced
from nnet3.engine.ir.proof.linked import RowLinks, links_of
from nnet3.engine.ir.proof.machine import Machine, Memo
from nnet3.engine.ir.proof.randoms import KernelSlice, Randoms, input_span, output_span, signs, slice_of


class KernelValue(NamedTuple):
    """A value given to a kernel: elements, columns as the kernel's, and a flag for rows being samples."""

    elements: Elements  # (rows, blocks, 2)
    span: ColumnSpan
    has_samples: bool


class Seen(NamedTuple):
    """Digests of the values seen by a kernel."""

    rows: Elements  # (output rows, 2)
    together: Elements  # (2,)
    of_input: dict[int, Elements]  # by the number of the input, (input rows, 2); of kernels that are not row by row


def slice_of_product(
    randoms: Randoms, sliced: KernelSlice, inputs: list[KernelValue], output: ColumnSpan, count: int
) -> Elements:
    """Returns some columns of a product, with the bias or an addend instead of the bias; or packed weights."""
    if not inputs:
        what = sliced.name, "packed", sliced.first, sliced.end, sliced.goes_backward
        return randoms.hashed_for_blocks(randoms.numbers(count), what, output)
    value = field.combined(inputs[0].elements, randoms.of_blocks((sliced.name, "weights", 0), inputs[0].span, output))
    added = inputs[1].elements if sliced.adds else randoms.of_blocks((sliced.name, "bias"), output)
    value = reduced(value + added)
    return reduced(value + wrongly_packed(randoms, sliced, inputs[-1])) if len(inputs) > 1 + sliced.adds else value


def wrongly_packed(randoms: Randoms, sliced: KernelSlice, packed: KernelValue) -> Elements:
    """Returns zero for what the slice itself has packed, else a random element."""
    right = slice_of_product(randoms, sliced, [], packed.span, len(packed.elements))
    wrong = reduced(packed.elements + field.scaled(right, -1.0))
    return randoms.digest_of_matrix((sliced.name, "packed"), wrong, packed.span)


def kernel_call(machine: Machine, number: int, node: str) -> KernelCall:
    """Returns the kernel of a node in the commands of a program; the same for all commands."""
    known: KernelCall | None = machine.calls.get((number, node))
    if known is None:
        known = machine.calls[number, node] = KernelCall(machine, number, node)
    return known


class KernelCall:
    """A kernel of a node in the commands of a program."""

    def __init__(self, machine: Machine, number: int, node: str) -> None:
        self.machine, self.randoms = machine, machine.randoms
        self.info: KernelInfo = machine.computation.kernels[number]
        self.slice, self.name, self.node = slice_of(self.info), slice_of(self.info).name, node
        self.links: RowLinks | None = None

    def link(self, shown: Sequence[int], output: int, entry: int) -> None:
        """Find the links of a command, if programs of several layouts are compared; `shown` begins with the input."""
        looks_at, self.links = self.randoms.looks_at, None
        if looks_at is not None and self.info.needs_indexes and shown:
            blocks = [self.machine.at_iteration(number) for number in (shown[0], output)]
            self.links = links_of(self.machine.computation, self.randoms, looks_at, self.node, blocks, entry)

    def value(self, operand: int, number: int) -> KernelValue:
        """Returns the contents of the sub-matrix of an input or derivative; number 0 is empty."""
        block = self.machine.computation.submatrices[number]
        span = input_span(self.info, operand, block.num_cols)
        return KernelValue(self.machine.read(number), span, self.machine.computation.has_samples(block.matrix))

    def output(self, number: int, num_inputs: int) -> ColumnSpan:
        return output_span(self.info, num_inputs, self.machine.computation.submatrices[number].num_cols)

    def hashed(self, values: Elements, *what: str | int) -> Elements:
        return self.randoms.hashed(values, self.name, *what)

    def sent(self, what: str | int, gradient: Elements, output: ColumnSpan) -> Elements:
        """Returns a random combination of the blocks of each row of a derivative, (rows, 2)."""
        return self.randoms.digest((self.name, "sent", what), gradient, output)

    def forward(
        self,
        inputs: list[KernelValue],
        output: ColumnSpan,
        count: int,
        draws: Elements,
        together: Elements | None = None,
    ) -> tuple[Elements, Memo]:
        """Returns the output (rows, blocks, 2) and the memo; `together` is given if it was computed before."""
        info = self.info
        linear = [
            info.rows_apart and value.has_samples and promises.is_linear
            for value, promises in zip(inputs, info.inputs, strict=True)
        ]
        seen = self._seen("forward", inputs, count, [not is_linear for is_linear in linear])
        is_affine = bool(linear) and all(linear) and not info.is_random
        if is_affine:
            bias = self.randoms.of_blocks((self.name, "bias"), output)
            result = reduced(bias + self.randoms.zeros(count, 1))
        else:
            state = reduced(seen.rows + draws + (seen.together if together is None else together))
            result = self.randoms.hashed_for_blocks(state, (self.name, "value"), output)
        for operand in np.flatnonzero(linear).tolist():
            added = inputs[operand].elements
            if not info.inputs[operand].passes_deriv:
                weights = self.randoms.of_blocks((self.name, "weights", operand), inputs[operand].span, output)
                added = field.combined(added, weights)
                added = added if all(linear) else field.product(added, self.hashed(state, "factor", operand)[:, None])
            result = reduced(result + added)
        if not (info.uses_memo or info.stores_stats):
            return result, Memo(seen.rows, seen.together, draws)
        if any(linear):
            seen = self._seen("memo", inputs, count, [True] * len(inputs))
        return result, Memo(self.hashed(reduced(seen.rows + draws), "memo"), seen.together, draws)

    def needed(
        self, inputs: Sequence[int], own: int, memo: Memo | None, wanted: list[int], output: ColumnSpan, count: int
    ) -> tuple[Seen, bool]:
        """Returns the values as seen by the backward pass, and a flag for needing any.

        `inputs` and `own`: the sub-matrices of the values of inputs and output; `wanted`: those of input derivatives.
        """
        info = self.info
        if not self.slice.is_whole:
            packed = wrongly_packed(self.randoms, self.slice, self.value(1, inputs[1])) if inputs[1:] else field.ZERO
            return Seen(self.randoms.zeros(count), packed, {}), False
        values = [self.value(operand, number) for operand, number in enumerate(inputs)]
        used = [
            promises.backprop_needs_value and number != 0 for promises, number in zip(info.inputs, inputs, strict=True)
        ]
        value = self.machine.read(own) if own else None
        if info.backprop_takes_input and value is None and memo is not None and inputs[0]:
            value, _ = self.forward(values, output, count, memo.draws, memo.together)
        counts = {operand: self.machine.num_rows(number) for operand, number in enumerate(wanted) if number}
        seen = self._seen("needed", values, count, used, counts)
        rows, together = seen.rows, seen.together
        if info.backprop_needs_output and value is not None:
            value = signs(value) if info.backprop_needs_sign_only else value
            rows = reduced(rows + self.randoms.digest((self.name, "own"), value, output))
        if memo is not None:
            rows, together = reduced(rows + memo.rows), reduced(together + memo.together)
        needs_values = any(promises.backprop_needs_value for promises in info.inputs)
        needs_values = needs_values or info.backprop_needs_output or memo is not None or not info.row_by_row
        if not info.row_by_row and self.links is None:
            together = reduced(together + field.total(self.hashed(rows, "all rows")))
        return Seen(rows, together, seen.of_input), needs_values

    def deriv(
        self, operand: int, shown: KernelValue, gradient: Elements, output: ColumnSpan, seen: Seen, needs_values: bool
    ) -> Elements:
        """Returns the derivative of an input, (rows, blocks, 2); `shown` is where it goes."""
        info, span = self.info, shown.span
        weights = self.randoms.of_blocks((self.name, "weights", operand), span, output).swapaxes(0, 1)
        if not self.slice.is_whole:
            return reduced(field.combined(gradient, weights) + seen.together)
        if info.inputs[operand].passes_deriv:
            return gradient.copy()
        is_row = info.row_by_row and shown.has_samples
        is_linear = info.rows_apart and info.backprop_rows_apart and all(promises.is_linear for promises in info.inputs)
        needs_values = needs_values and not is_linear
        state = reduced(seen.rows + seen.together)
        result = self.randoms.zeros(*shown.elements.shape[:-1])
        if is_row:
            result = field.combined(gradient, weights)
            if needs_values:
                result = field.product(result, self.hashed(state, "backward", operand)[:, None])
        if self.links is not None:
            sent = self.links.scattered(
                self.sent(operand, gradient, output), state, self.randoms.key(self.name, operand)
            )
            at = self.hashed(seen.of_input[operand], "from others", operand)
            where = self.randoms.of_blocks((self.name, "where", operand), span)
            result = field.product(field.product(at, sent)[:, None], where)
        elif not (is_row and info.backprop_rows_apart):
            factor = self.hashed(state, "to others", operand) if needs_values else field.ONE
            together = field.total(field.product(factor, self.sent(operand, gradient, output)))
            own = seen.rows if is_row else seen.of_input.get(operand, field.ZERO)
            at = self.hashed(reduced(own + self.randoms.zeros(len(result))), "from others", operand)
            if not shown.has_samples:
                at = field.product(at, self.randoms.of_rows((self.name, "at", operand), len(result)))
            where = self.randoms.of_blocks((self.name, "where", operand), span)
            result = reduced(result + field.product(field.product(at[:, None], where), together))
        if info.backprop_is_linear:
            return result
        return field.zero_or(result, self.hashed(result, "bent", operand))

    def _seen(
        self, what: str, values: list[KernelValue], count: int, used: list[bool], counts: dict[int, int] | None = None
    ) -> Seen:
        """Digests the used values, for an output of so many rows.

        For a kernel not row by row, inputs of equally many rows stand side by side; rows count with row
        numbers in a kernel with indexes.
        """
        info, name = self.info, self.name
        rows, together = self.randoms.zeros(count), field.ZERO
        beside: dict[int, Elements] = {}
        for operand, (value, is_used) in enumerate(zip(values, used, strict=True)):
            if not is_used:
                continue
            if info.row_by_row and value.has_samples:
                rows = reduced(rows + self.randoms.digest((name, what, operand), value.elements, value.span))
            elif info.row_by_row or not value.has_samples:
                digest = self.randoms.digest_of_matrix((name, what, operand), value.elements, value.span)
                together = reduced(together + digest)
            else:
                digest = self.randoms.digest((name, what, operand), value.elements, value.span)
                beside[len(digest)] = reduced(beside.get(len(digest), field.ZERO) + digest)
        if info.row_by_row:
            if not (info.backprop_rows_apart if what == "needed" else info.rows_apart):
                together = reduced(together + field.total(self.hashed(rows, what, "together")))
            return Seen(rows, together, {})
        of_input: dict[int, Elements] = {}
        if self.links is not None:
            digests = beside.get(len(self.links.of_inputs))
            digests = self.links.of_inputs if digests is None else reduced(digests + self.links.of_inputs)
            looked_at = self.links.gathered(digests, self.randoms.key(name, what, "slots"))
            return Seen(reduced(looked_at + self.links.of_outputs), together, dict.fromkeys(counts or {}, digests))
        for size in {*beside, *(counts or {}).values()}:
            joined = beside.get(size, self.randoms.zeros(size))
            if info.needs_indexes:
                joined = reduced(joined + self.randoms.numbers(size))
            if size in beside:
                together = reduced(together + field.total(self.hashed(joined, what, "beside")))
            of_input |= {operand: joined for operand, other in (counts or {}).items() if other == size}
        return Seen(self.randoms.numbers(count), together, of_input)
