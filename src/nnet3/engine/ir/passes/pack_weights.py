"""Packing: the steps of a recurrence read the weights of a product from a matrix, in the order of the product.

A part of a kernel multiplies by some columns of the weights, amid unused columns; a whole kernel by all. Steps read the
columns again and again. The pass copies the columns once, in the kernel's own order, to lay neighbours together in
memory; the columns of whole kernels only in programs with a backward pass:

    before                                          after
    W[6:9]+.Propagate((m2, m9(0:1, :)), &m4)        W[6:9]+.Propagate((), &m10)
    W[6:9]+.Propagate((m2, m9(2:3, :)), &m4)        W[6:9]+.Propagate((m2, m9(0:1, :), m10), &m4)
                                                    W[6:9]+.Propagate((m2, m9(2:3, :), m10), &m4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnet3.engine.ir.commands import AllocMatrix, Backprop, DeallocMatrix, Propagate, with_values
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import InputPromises, KernelInfo, named_slice, slice_name
from nnet3.engine.ir.passes.recurrent_steps import Rewriting, steps_of_kernels
from nnet3.engine.ir.program_tables import MatrixInfo


def pack_weights(computation: NnetComputation) -> NnetComputation:
    """Give packed weights to kernels able to pack weights and multiplying by the weights several times."""

    def packs_backward(step: Backprop) -> bool:
        info = computation.kernels[step.kernel]
        gives_deriv_alone = not step.update and step.memo < 0 and step.input_derivs[0] != 0
        return info.packs or (info.slices_pack and gives_deriv_alone)

    trains = any(isinstance(command, Backprop) for command in computation.commands)

    def packs_forward(step: Propagate) -> bool:  # few rows, of programs that go forward alone, gain nothing by it
        info = computation.kernels[step.kernel]
        return info.packs or (trains and info.slices_pack and not step.store_stats and step.memo < 0)

    forward = steps_of_kernels(computation, Propagate, packs_forward)
    backward = steps_of_kernels(computation, Backprop, packs_backward)
    chosen = [numbers for numbers in forward + backward if len(numbers) > 1]
    if not chosen:
        return computation
    rewriting = Rewriting(computation.copy())
    for numbers in chosen:
        _pack(rewriting, numbers)
    return rewriting.finish()


def _pack(rewriting: Rewriting, numbers: Sequence[int]) -> None:
    """Let the steps read packed weights, and allocate the matrix of packed weights around the steps."""
    result = rewriting.computation
    first = result.commands[numbers[0]]
    assert isinstance(first, Propagate | Backprop)
    blocks, info, needed = result.submatrices, result.kernels[first.kernel], InputPromises()
    if isinstance(first, Propagate):
        shape = blocks[first.inputs[0]].num_cols, blocks[first.output].num_cols
        if not info.packs:
            info = KernelInfo(slice_name(info.name, 0, shape[0]), (needed,), row_by_row=True)
    else:
        shape = blocks[first.output_deriv].num_cols, blocks[first.input_derivs[0]].num_cols
        kernel, begin, end, *_ = named_slice(info.name) or (info.name, 0, shape[1])
        info = KernelInfo(slice_name(kernel, begin, end, goes_backward=True), (needed,), row_by_row=True)
        needed = InputPromises(backprop_needs_value=True)
    weights = result.new_matrix(*shape, MatrixInfo(first.node, False, None))
    packer = result.find_or_add_kernel(replace(info, inputs=(), row_by_row=False, packs=False))
    multiplier = result.find_or_add_kernel(replace(info, inputs=(*info.inputs, needed), packs=False))
    for number in numbers:
        step = result.commands[number]
        if isinstance(step, Propagate):
            rewriting.instead[number] = [with_values(step, kernel=multiplier, inputs=(*step.inputs, weights))]
        elif isinstance(step, Backprop):
            derivs = step.input_derivs[0], 0
            rewriting.instead[number] = [
                Backprop(multiplier, step.node, (0, weights), 0, step.output_deriv, derivs, (0, 0), update=False)
            ]
    rewriting.before[numbers[0]] += [AllocMatrix(weights, zeroed=False), Propagate(packer, first.node, (), weights)]
    rewriting.after[numbers[-1]].append(DeallocMatrix(weights))
