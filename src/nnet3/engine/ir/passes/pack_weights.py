"""Packing: the steps of a recurrence read the weights of a product from a matrix without further columns.

A part of a kernel multiplies by some columns of the weights, amid unused columns. Steps read the columns
again and again. The pass copies the columns once, in the kernel's own order, to lay neighbours together in memory:

    before                                          after
    W[6:9]+.Propagate((m2, m9(0:1, :)), &m4)        W[6:9]+.Propagate((), &m10)
    W[6:9]+.Propagate((m2, m9(2:3, :)), &m4)        W[6:9]+.Propagate((m2, m9(0:1, :), m10), &m4)
                                                    W[6:9]+.Propagate((m2, m9(2:3, :), m10), &m4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnet3.engine.ir.commands import AllocMatrix, DeallocMatrix, Propagate, with_values
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import InputPromises
from nnet3.engine.ir.passes.recurrent_steps import Rewriting, steps_of_kernels
from nnet3.engine.ir.program_tables import MatrixInfo


def pack_weights(computation: NnetComputation) -> NnetComputation:
    """Give packed weights to kernels able to pack weights and multiplying by the weights several times."""
    found = steps_of_kernels(computation, Propagate, lambda step: computation.kernels[step.kernel].packs)
    chosen = [numbers for numbers in found if len(numbers) > 1]
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
    assert isinstance(first, Propagate)
    blocks, info = result.submatrices, result.kernels[first.kernel]
    shape = blocks[first.inputs[0]].num_cols, blocks[first.output].num_cols
    weights = result.new_matrix(*shape, MatrixInfo(first.node, False, None))
    packer = result.find_or_add_kernel(replace(info, inputs=(), row_by_row=False, packs=False))
    kernel = result.find_or_add_kernel(replace(info, inputs=(*info.inputs, InputPromises()), packs=False))
    for number in numbers:
        step = result.commands[number]
        assert isinstance(step, Propagate)
        rewriting.instead[number] = [with_values(step, kernel=kernel, inputs=(*step.inputs, weights))]
    rewriting.before[numbers[0]] += [AllocMatrix(weights, zeroed=False), Propagate(packer, first.node, (), weights)]
    rewriting.after[numbers[-1]].append(DeallocMatrix(weights))
