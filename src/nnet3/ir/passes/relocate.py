"""Rewriting of a computation in which matrices lie in others."""

from __future__ import annotations

from nnet3.ir.analysis import Analysis
from nnet3.ir.commands import AllocMatrix, Command, DeallocMatrix
from nnet3.ir.computation import NnetComputation, SubMatrix
from nnet3.ir.passes.places import Candidates, MatrixPlace


def relocate(analysis: Analysis, places: dict[int, MatrixPlace], candidates: Candidates) -> NnetComputation:
    """Move each matrix to its place, and drop the copies from a block to itself.

    Sub-matrices keep their numbers, so that commands and tables stay as they are. The matrix in which others lie lives
    from the first allocation of one of them to the last deallocation.
    """
    computation = analysis.computation
    result = computation.copy()
    for number, block in enumerate(computation.submatrices):
        place = places.get(block.matrix)
        if place is not None and place.matrix != block.matrix:
            row, col = block.row_offset + place.row, block.col_offset + place.col
            result.submatrices[number] = SubMatrix(place.matrix, row, block.num_rows, col, block.num_cols)
    dropped = _join_lives(analysis, result, places)
    if candidates.are_copies:
        copies = {number for commands in candidates.commands.values() for number in commands}
        dropped |= {number for number in copies if _is_one_block(result, result.commands[number])}
    result.commands = [command for number, command in enumerate(result.commands) if number not in dropped]
    return result


def _is_one_block(result: NnetComputation, command: Command) -> bool:
    one, other = (result.submatrices[number] for number in command.form.operands(command))
    return one == other


def _join_lives(analysis: Analysis, result: NnetComputation, places: dict[int, MatrixPlace]) -> set[int]:
    """Leave one allocation and at most one deallocation for each shared place; returns the commands to drop."""
    members: dict[int, list[int]] = {}
    for matrix, place in places.items():
        members.setdefault(place.matrix, []).append(matrix)
    dropped: set[int] = set()
    for root, matrices in members.items():
        allocation = analysis.computation.commands[analysis.alloc_command[root]]
        (whole,) = allocation.form.operands(allocation)
        begins = sorted(analysis.alloc_command[matrices].tolist())
        ends = sorted(analysis.dealloc_command[matrices].tolist())
        result.commands[begins[0]] = AllocMatrix(whole, bool(analysis.begins_as_zeros[matrices].any()))
        dropped |= set(begins[1:])
        if ends[0] == -1:  # one of them is never deallocated
            dropped |= set(ends) - {-1}
            continue
        result.commands[ends[-1]] = DeallocMatrix(whole)
        dropped |= set(ends[:-1])
    return dropped
