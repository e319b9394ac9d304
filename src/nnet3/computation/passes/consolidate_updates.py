"""One update a kernel and minibatch: pieces of a backward pass propagate derivatives, one more call updates.

A kernel's backward runs in pieces if several nodes share it or if it lies in a recurrence. Natural gradient
needs to see all rows of a minibatch at once, so the pieces lose their update, and one Backprop on the
concatenated rows of all pieces does it after the last one (training.md 2). The rows need no copying if they are
neighbours in one matrix, as those of a recurrence are, and are still there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nnet3.computation.analysis import Analysis, segment_of_command
from nnet3.computation.commands import AllocMatrix, Backprop, Command, DeallocMatrix, MatrixCopy
from nnet3.computation.computation import MatrixInfo, NnetComputation, SubMatrix
from nnet3.computation.variables import Integers, submatrix_table


def consolidate_updates(computation: NnetComputation) -> NnetComputation:
    """One Backprop with update for each kernel and segment, where KernelInfo.rows_can_be_merged allows it."""
    groups = _updates_in_pieces(computation)
    if not groups:
        return computation
    analysis = Analysis(computation)
    result = computation.copy()
    edits = _Edits()
    for numbers in groups:
        _merge(analysis, result, numbers, edits)
    result.commands = edits.applied_to(computation.commands)
    return result


def _updates_in_pieces(computation: NnetComputation) -> list[Integers]:
    """For each kernel and segment with more than one update, the numbers of the commands that make it."""
    segment = segment_of_command(computation)
    numbers: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, command in enumerate(computation.commands):
        if not isinstance(command, Backprop) or not command.update:
            continue
        kernel = computation.kernels[command.kernel]
        if kernel.updatable and kernel.rows_can_be_merged and command.precomputed == 0 and command.memo == -1:
            numbers[int(segment[number]), command.kernel].append(number)
    return [np.array(pieces) for pieces in numbers.values() if len(pieces) > 1]


@dataclass
class _Edits:
    """What is to stand before, instead of and after commands of the old list."""

    before: dict[int, list[Command]] = field(default_factory=lambda: defaultdict(list))
    instead: dict[int, list[Command]] = field(default_factory=dict)
    after: dict[int, list[Command]] = field(default_factory=lambda: defaultdict(list))

    def applied_to(self, commands: Sequence[Command]) -> list[Command]:
        result: list[Command] = []
        for number, command in enumerate(commands):
            result += self.before.get(number, [])
            result += self.instead.get(number, [command])
            result += self.after.get(number, [])
        return result


def _merge(analysis: Analysis, result: NnetComputation, numbers: Integers, edits: _Edits) -> None:
    """Add the edits that merge the updates at these commands; new matrices and blocks are declared in `result`."""
    pieces = [command for n in numbers if isinstance(command := analysis.computation.commands[n], Backprop)]
    kernel = analysis.computation.kernels[pieces[0].kernel]
    num_inputs = len(pieces[0].inputs)
    operands = [np.array([piece.output_deriv for piece in pieces])]
    if kernel.backprop_needs_output:
        operands.append(np.array([piece.output for piece in pieces]))
    if kernel.backprop_needs_input:
        operands += list(np.array([piece.inputs for piece in pieces]).T)

    block = submatrix_table(analysis.computation)
    in_place = [_still_there(analysis, operand, numbers) for operand in operands]
    orders = [np.lexsort((block[operand, 1], block[operand, 0])) for operand in operands]
    views = [
        [there and _are_neighbours(block[o[order]]) for o, there in zip(operands, in_place, strict=True)]
        for order in orders
    ]
    best = int(np.argmax([sum(view) for view in views]))
    merged = []
    for operand, is_view in zip(operands, views[best], strict=True):
        rows_in_order = operand[orders[best]]
        if is_view:
            merged.append(_joined(result, rows_in_order))
        else:
            merged.append(_collected(result, rows_in_order, numbers[orders[best]], edits))

    for number, piece in zip(numbers.tolist(), pieces, strict=True):
        edits.instead[number] = [replace(piece, update=False)] if any(piece.input_derivs) else []
    output_deriv, *others = merged
    output = others.pop(0) if kernel.backprop_needs_output else 0
    inputs = tuple(others) if kernel.backprop_needs_input else (0,) * num_inputs
    update = Backprop(
        pieces[0].kernel, _common_name(pieces, kernel.name), inputs, output, output_deriv, (0,) * num_inputs, True
    )
    # A collecting matrix dies right after the update, which must therefore come before what `_collected` put there.
    edits.after[int(numbers[-1])].insert(0, update)


def _still_there(analysis: Analysis, operand: Integers, numbers: Integers) -> bool:
    """Whether what each piece sees in this operand is unchanged after the last piece.

    A piece may itself overwrite its output derivative in place, so its own command counts. Neighbours are in one
    matrix, and since the last piece uses it, it is still allocated.
    """
    return bool((analysis.next_write(operand, numbers) > numbers[-1]).all())


def _are_neighbours(blocks: Integers) -> bool:
    """Whether sub-matrices, as rows of `submatrix_table`, follow each other in the same columns of one matrix."""
    same = (blocks[:, [0, 3, 4]] == blocks[0, [0, 3, 4]]).all()
    return bool(same and (blocks[1:, 1] == blocks[:-1, 2]).all())


def _joined(result: NnetComputation, parts: Integers) -> int:
    """The block that neighbouring sub-matrices make up."""
    first = result.submatrices[parts[0]]
    num_rows = sum(result.submatrices[part].num_rows for part in parts)
    return result.find_or_add(replace(first, num_rows=num_rows))


def _collected(result: NnetComputation, parts: Integers, numbers: Integers, edits: _Edits) -> int:
    """A new matrix into which each part is copied before its command; parts and commands in the order of the rows."""
    blocks = [result.submatrices[part] for part in parts]
    num_rows = sum(block.num_rows for block in blocks)
    whole = result.new_matrix(num_rows, blocks[0].num_cols, _collected_info(result, blocks))
    edits.before[int(numbers.min())].insert(0, AllocMatrix(whole, zeroed=False))
    row = 0
    for part, block, number in zip(parts.tolist(), blocks, numbers.tolist(), strict=True):
        place = result.new_submatrix(whole, row, block.num_rows)
        edits.before[number].append(MatrixCopy(place, part))
        row += block.num_rows
    edits.after[int(numbers.max())].append(DeallocMatrix(whole))
    return whole


def _collected_info(result: NnetComputation, blocks: Sequence[SubMatrix]) -> MatrixInfo | None:
    infos = [result.matrix_info.get(block.matrix) for block in blocks]
    known = [info for info in infos if info is not None]
    if len(known) < len(blocks):
        return None
    rows = [i.indexes[b.row_offset : b.row_offset + b.num_rows] for i, b in zip(known, blocks, strict=True)]
    node = "+".join(dict.fromkeys(info.node for info in known))
    return MatrixInfo(node, known[0].is_deriv, np.concatenate(rows))


def _common_name(pieces: Sequence[Backprop], kernel_name: str) -> str:
    nodes = {piece.node for piece in pieces}
    return nodes.pop() if len(nodes) == 1 else kernel_name
