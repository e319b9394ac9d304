"""Commands that run kernels forward and backward."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from nnet3.engine.ir.declarations import (
    Command,
    KernelNumber,
    MakesMemo,
    MaybeReads,
    MaybeUpdates,
    MaybeWrites,
    NodeName,
    Precomputed,
    Reads,
    SideEffect,
    UsesMemo,
    Writes,
)
from nnet3.engine.ir.program_tables import ProgramTables
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.field import reduced
from nnet3.engine.ir.proof.kernels import kernel_call, slice_of_product
from nnet3.engine.ir.proof.machine import Machine
from nnet3.engine.ir.proof.randoms import input_span, output_span
from nnet3.engine.ir.shape_rules import Problems, overlap, same_rows, same_shape


@dataclass(frozen=True)
class Propagate(Command):
    """output = kernel(inputs), for this node. `memo` numbers the memo left by the kernel for Backprop (-1: none)."""

    kernel: KernelNumber
    node: NodeName
    inputs: tuple[Reads, ...]
    output: Writes
    precomputed: Precomputed = 0
    memo: MakesMemo = -1
    store_stats: SideEffect = False

    line = "{kernel}.Propagate({inputs}, &{output}){notes}"
    notes = ("{node:node {}}", "{precomputed:precomputed {}}", "{memo:memo {}}", "{store_stats:store stats}")

    def problems(self, computation: ProgramTables) -> Problems:
        kernel = computation.kernels[self.kernel]
        if len(self.inputs) != len(kernel.inputs):
            yield f"it has {len(self.inputs)} inputs, kernel '{kernel.name}' {len(kernel.inputs)}"
        if self.memo >= 0 and not kernel.uses_memo:
            yield f"it has memo {self.memo}, but kernel '{kernel.name}' uses none"
        if self.store_stats and not kernel.stores_stats:
            yield f"it stores statistics, but kernel '{kernel.name}' has none"
        if kernel.row_by_row:
            for i, number in enumerate(self.inputs):
                yield from _rows_of_sample(computation, f"inputs[{i}]", number, output=self.output)

    def evaluate(self, machine: Machine) -> None:
        kernel = kernel_call(machine, self.kernel, self.node)
        inputs = [kernel.value(operand, number) for operand, number in enumerate(self.inputs)]
        kernel.link(self.inputs, self.output, self.precomputed)
        output, count = kernel.output(self.output, len(inputs)), machine.num_rows(self.output)
        if not kernel.slice.is_whole:
            machine.write(self.output, slice_of_product(kernel.randoms, kernel.slice, inputs, output, count))
            return
        draws = machine.randoms.zeros(count)
        if kernel.info.is_random and machine.randoms.looks_at is None:
            draws = machine.draws(kernel.info.name, self.node, count)
        value, memo = kernel.forward(inputs, output, count, draws)
        if self.memo >= 0:
            machine.keep(self.memo, memo)
        if self.store_stats:
            stored = machine.randoms.digest((kernel.info.name, "stored"), value, output)
            change = field.total(kernel.hashed(reduced(stored + memo.rows), "stored"))
            if machine.randoms.looks_at is None:  # else calls may take other rows together
                change = machine.randoms.of_call(change, (kernel.name, "stored of"), count)
            machine.effect("statistics of kernel", kernel.info.name, change)
        machine.write(self.output, value)

    def columns(self, computation: ProgramTables) -> Iterator[tuple[int, Hashable, int]]:
        info, blocks = computation.kernels[self.kernel], computation.submatrices
        spans = [input_span(info, operand, blocks[number].num_cols) for operand, number in enumerate(self.inputs)]
        output = output_span(info, len(self.inputs), blocks[self.output].num_cols)
        yield from (
            (number, *span[:2]) for number, span in zip((*self.inputs, self.output), (*spans, output), strict=True)
        )

    def in_place_pairs(self, computation: ProgramTables) -> list[tuple[int, int]]:
        promises = computation.kernels[self.kernel].inputs
        return [
            (number, self.output)
            for number, promised in zip(self.inputs, promises, strict=True)
            if promised.propagate_in_place and self.inputs.count(number) == 1
        ]


@dataclass(frozen=True)
class PropagateAgain(Propagate):
    """output = kernel(inputs) once more, the same numbers: with the memo of the Propagate, and without statistics."""

    memo: UsesMemo = -1

    line = "{kernel}.Propagate({inputs}, &{output}){notes} again"

    def problems(self, computation: ProgramTables) -> Problems:
        yield from super().problems(computation)
        kernel = computation.kernels[self.kernel]
        if not kernel.repeats_forward or self.store_stats:
            yield f"kernel '{kernel.name}' does not promise to repeat its forward pass, or is to store statistics again"
        if kernel.uses_memo and self.memo < 0:
            yield f"kernel '{kernel.name}' needs the memo of its Propagate, but none is given"

    def evaluate(self, machine: Machine) -> None:
        kernel = kernel_call(machine, self.kernel, self.node)
        inputs = [kernel.value(operand, number) for operand, number in enumerate(self.inputs)]
        kernel.link(self.inputs, self.output, self.precomputed)
        count = machine.num_rows(self.output)
        memo = machine.memo(self.memo, count)
        draws = machine.randoms.zeros(count) if memo is None else memo.draws
        together = None if memo is None else memo.together
        value, _ = kernel.forward(inputs, kernel.output(self.output, len(inputs)), count, draws, together)
        machine.write(self.output, value)


@dataclass(frozen=True)
class Backprop(Command):
    """Compute the derivatives of a kernel's inputs; with `update` change its parameters and statistics.

    The derivative of input i overwrites `input_derivs[i]` or is added to `added_derivs[i]`; one of the two is 0, and if
    both are, none is computed. Adding needs the promise `accumulates_deriv`. `inputs` and `output` are 0 where the
    kernel does not need the value.
    """

    kernel: KernelNumber
    node: NodeName
    inputs: tuple[MaybeReads, ...]
    output: MaybeReads
    output_deriv: Reads
    input_derivs: tuple[MaybeWrites, ...]
    added_derivs: tuple[MaybeUpdates, ...]
    update: SideEffect
    precomputed: Precomputed = 0
    memo: UsesMemo = -1

    line = "{kernel}.Backprop({inputs}, {output}, {output_deriv}, {input_derivs/added_derivs:&/+= }){notes}"
    notes = ("{node:node {}}", "{update:update}", "{precomputed:precomputed {}}", "{memo:memo {}}")

    def problems(self, computation: ProgramTables) -> Problems:
        kernel = computation.kernels[self.kernel]
        counts = [len(self.inputs), len(self.input_derivs), len(self.added_derivs)]
        if set(counts) != {len(kernel.inputs)}:
            yield (
                f"it has {counts[0]} inputs, {counts[1]} input derivatives and {counts[2]} added ones; "
                f"kernel '{kernel.name}' has {len(kernel.inputs)} inputs"
            )
        yield from self._promises(computation)
        if self.output:
            yield from same_shape(computation, output=self.output, output_deriv=self.output_deriv)
        for i, number in enumerate(self.inputs):
            for derivs, role in ((self.input_derivs, "input_derivs"), (self.added_derivs, "added_derivs")):
                if number and derivs[i]:
                    yield from same_shape(computation, **{f"inputs[{i}]": number, f"{role}[{i}]": derivs[i]})
                if derivs[i] and kernel.row_by_row:
                    yield from _rows_of_sample(computation, f"{role}[{i}]", derivs[i], output_deriv=self.output_deriv)
            if number and kernel.row_by_row:
                yield from _rows_of_sample(computation, f"inputs[{i}]", number, output_deriv=self.output_deriv)
        filled = [computation.submatrices[number] for number in (*self.input_derivs, *self.added_derivs) if number]
        if any(overlap(a, b) for i, a in enumerate(filled) for b in filled[:i]):
            yield "two of its input derivatives overlap"

    def evaluate(self, machine: Machine) -> None:
        kernel = kernel_call(machine, self.kernel, self.node)
        info, gradient = kernel.info, machine.read(self.output_deriv)
        output = kernel.output(self.output_deriv, len(self.inputs))
        wanted = [written or added for written, added in zip(self.input_derivs, self.added_derivs, strict=True)]
        kernel.link(list(filter(None, (*self.inputs, *wanted))), self.output_deriv, self.precomputed)
        memo = machine.memo(self.memo, len(gradient)) if kernel.slice.is_whole else None
        seen, needs_values = kernel.needed(self.inputs, self.output, memo, wanted, output, len(gradient))
        derivs = []
        for operand, number in enumerate(wanted):
            if number:
                shown = kernel.value(operand, number)
                derivs.append((operand, number, kernel.deriv(operand, shown, gradient, output, seen, needs_values)))
        if self.update and info.learns:
            factor = kernel.hashed(reduced(seen.rows + seen.together), "learned") if needs_values else field.ONE
            change = field.total(field.product(factor, kernel.sent("learned", gradient, output)))
            if info.updatable or machine.randoms.looks_at is None:
                change = machine.randoms.of_call(change, (kernel.name, "learned of"), len(gradient))
            machine.effect("update of kernel", info.name, change)
        for operand, number, deriv in derivs:
            (machine.write if self.input_derivs[operand] else machine.add)(number, deriv)

    def columns(self, computation: ProgramTables) -> Iterator[tuple[int, Hashable, int]]:
        info, blocks = computation.kernels[self.kernel], computation.submatrices
        output = output_span(info, len(self.inputs), blocks[self.output_deriv].num_cols)
        yield from ((number, *output[:2]) for number in (self.output, self.output_deriv) if number)
        for operand, numbers in enumerate(zip(self.inputs, self.input_derivs, self.added_derivs, strict=True)):
            for number in numbers:
                if number:
                    yield number, *input_span(info, operand, blocks[number].num_cols)[:2]

    def in_place_pairs(self, computation: ProgramTables) -> list[tuple[int, int]]:
        if self.output_deriv == self.output or self.output_deriv in self.inputs:
            return []
        promises = computation.kernels[self.kernel].inputs
        return [
            (self.output_deriv, number)
            for number, promised in zip(self.input_derivs, promises, strict=True)
            if promised.backprop_in_place and number
        ]

    def _promises(self, computation: ProgramTables) -> Problems:
        kernel = computation.kernels[self.kernel]
        for i, promises in enumerate(kernel.inputs):
            if promises.backprop_needs_value and self.inputs[i] == 0:
                yield f"kernel '{kernel.name}' needs the value of its input {i}, but it is empty"
            if self.input_derivs[i] and self.added_derivs[i]:
                yield f"the derivative of its input {i} is both overwritten and added to"
            if self.added_derivs[i] and not promises.accumulates_deriv:
                yield f"kernel '{kernel.name}' does not promise to add to the derivative of its input {i}"
        takes_input = kernel.backprop_takes_input and self.inputs[0] != 0
        if kernel.backprop_needs_output and self.output == 0 and not takes_input:
            yield f"kernel '{kernel.name}' needs its output value, but it is empty"
        if kernel.uses_memo and self.memo < 0:
            yield f"kernel '{kernel.name}' needs the memo of its Propagate, but none is given"
        if self.memo >= 0 and not kernel.uses_memo:
            yield f"it has memo {self.memo}, but kernel '{kernel.name}' uses none"
        if self.update and not computation.need_model_derivative and kernel.updatable:
            yield f"it updates kernel '{kernel.name}' in a computation without model derivative"
        if self.update and kernel.is_frozen and not kernel.counts_backward:
            yield f"it updates kernel '{kernel.name}', which is frozen"


def _rows_of_sample(computation: ProgramTables, name: str, number: int, **output: int) -> Problems:
    """An input whose rows are samples must have as many rows as the output; other inputs may have any size."""
    if computation.has_samples(computation.submatrices[number].matrix):
        yield from same_rows(computation, **{name: number}, **output)
