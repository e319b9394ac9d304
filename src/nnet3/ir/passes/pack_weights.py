"""Packing: the steps of a recurrence read the weights of their product from a matrix that holds nothing else.

A part of a kernel multiplies by some columns of its weights, which lie between others. Read at every step, they are
copied once, transposed, so that rows follow each other in memory:

    before                                          after
    W[6:9]+.Propagate((m2, m9(0:1, :)), &m4)        W[6:9]+.Propagate((), &m10)
    W[6:9]+.Propagate((m2, m9(2:3, :)), &m4)        W[6:9]+.Propagate((m2, m9(0:1, :), m10), &m4)
                                                    W[6:9]+.Propagate((m2, m9(2:3, :), m10), &m4)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from nnet3.ir.commands import AllocMatrix, Command, DeallocMatrix, Propagate, SegmentMarker
from nnet3.ir.computation import MatrixInfo, NnetComputation
from nnet3.ir.kernel import InputPromises, KernelInfo


def pack_weights(computation: NnetComputation) -> NnetComputation:
    """Give kernels that pack their weights, and multiply by them several times, packed weights."""
    chosen = _several_times(computation)
    if not chosen:
        return computation
    result = computation.copy()
    around: dict[int, list[Command]] = {}
    for numbers in chosen:
        for number, commands in _packed(result, numbers):
            around[number] = commands
    result.commands = [c for number, command in enumerate(result.commands) for c in around.get(number, (command,))]
    return result


def _several_times(computation: NnetComputation) -> list[list[int]]:
    """Returns the commands of each kernel that packs, within a segment, where there are several."""
    found: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    segment = 0
    for number, command in enumerate(computation.commands):
        segment += isinstance(command, SegmentMarker)
        if isinstance(command, Propagate) and computation.kernels[command.kernel].packs:
            found[command.kernel, command.node, segment].append(number)
    return [numbers for numbers in found.values() if len(numbers) > 1]


def _packed(result: NnetComputation, numbers: Sequence[int]) -> list[tuple[int, list[Command]]]:
    """Returns what stands in the places of these commands; adds the matrix of packed weights to the result."""
    first = result.commands[numbers[0]]
    assert isinstance(first, Propagate)
    blocks, info = result.submatrices, result.kernels[first.kernel]
    shape = blocks[first.inputs[0]].num_cols, blocks[first.output].num_cols
    weights = result.new_matrix(*shape, MatrixInfo(first.node, False, None))
    packer = _number_of(result, replace(info, inputs=(), row_by_row=False, packs=False))
    kernel = _number_of(result, replace(info, inputs=(*info.inputs, InputPromises()), packs=False))
    instead: list[tuple[int, list[Command]]] = []
    for number in numbers:
        step = result.commands[number]
        assert isinstance(step, Propagate)
        instead.append((number, [replace(step, kernel=kernel, inputs=(*step.inputs, weights))]))
    instead[0][1][:0] = [AllocMatrix(weights, zeroed=False), Propagate(packer, first.node, (), weights)]
    instead[-1][1].append(DeallocMatrix(weights))
    return instead


def _number_of(computation: NnetComputation, info: KernelInfo) -> int:
    if info not in computation.kernels:
        computation.kernels.append(info)
    return computation.kernels.index(info)
