"""Coalescing: laying matrices into one place where they do not interfere.

A pass offers candidates: pairs of matrices that some commands would like to be one.

    c4: m2 = m1                   share_copies offers (m1, m2): the copy would have nothing to do
    c5: relu.Propagate(m2, &m3)   work_in_place offers (m2, m3): the kernel can run in place

Pairs that have matrices in common make a group, which is laid into its largest matrix. Two matrices of a group
interfere if a read would then find what was written to the other one and not copied from there. Interference takes
candidates away until what is left has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from nnet3.index import NO_TIME, T
from nnet3.ir.analysis import Analysis, analyse
from nnet3.ir.commands import AllocMatrix, Command, DeallocMatrix
from nnet3.ir.computation import NnetComputation, SubMatrix
from nnet3.ir.declarations import Life
from nnet3.ir.passes.merge_conflicts import MergeConflicts
from nnet3.ir.passes.places import Candidates, MatrixPlace, Pair


def merge_matrices(computation: NnetComputation, candidates: Candidates) -> NnetComputation:
    """Lay the two matrices of each candidate pair into one place, where no read would find another value."""
    analysis = analyse(computation)
    pairs = _possible(analysis, candidates.commands)
    places: dict[int, MatrixPlace] = {}
    while pairs:
        groups = _groups(pairs, computation)
        conflicts = MergeConflicts(analysis, candidates, groups).found()
        failed = {groups[victim].matrix for victim, _ in conflicts}
        places.update({m: place for m, place in groups.items() if place.matrix not in failed})
        pairs = _without(pairs, conflicts, places)
    return relocate(analysis, places, candidates) if places else computation


# ---- candidates ----


def _possible(analysis: Analysis, pairs: Iterable[Pair]) -> list[Pair]:
    """Returns the pairs of matrices that may both be moved, one pair for any two matrices."""
    computation = analysis.computation
    given, fixed, rooms = _given(computation), _fixed(analysis), _rooms(computation)
    chosen: dict[tuple[int, int], Pair] = {}
    for pair in pairs:
        source, dest = pair.source, pair.dest
        one, other = computation.matrices[source], computation.matrices[dest]
        if source == dest or one.dtype != other.dtype or source in fixed or dest in fixed:
            continue
        if (source in rooms) != (dest in rooms):
            continue
        num_given = (source in given) + (dest in given)
        if num_given == 2 or (num_given == 1 and (one != other or pair[2:] != (0, 0))):
            continue
        chosen.setdefault((source, dest), pair)
    return list(chosen.values())


def _fixed(analysis: Analysis) -> set[int]:
    """Returns the matrices that lie outside and those that are compressed for a while."""
    compressed = [matrix for _, matrix in analysis.accesses.lives[Life.COMPRESSES]]
    return {0, *analysis.computation.outside_by_matrix(), *compressed}


def _rooms(computation: NnetComputation) -> set[int]:
    """Returns the matrices that hold one time step after the other; they stay out of rows that have a time."""
    infos = computation.matrix_info.items()
    return {m for m, info in infos if info.indexes is not None and (info.indexes[:, T] == NO_TIME).all()}


def _given(computation: NnetComputation) -> set[int]:
    """Returns the matrices that are exchanged with the user, which stay whole."""
    io = (*computation.inputs, *computation.outputs)
    return {computation.submatrices[number].matrix for i in io for number in (i.value, i.deriv)}


# ---- groups ----


def _groups(pairs: Sequence[Pair], computation: NnetComputation) -> dict[int, MatrixPlace]:
    """Returns a place for each matrix of the pairs: in the largest one that is connected with it, if it fits there."""
    neighbours: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        neighbours[pair.source].append(pair)
        neighbours[pair.dest].append(Pair(pair.dest, pair.source, -pair.row_shift, -pair.col_shift))
    sizes = computation.matrices
    places: dict[int, MatrixPlace] = {}
    for root in sorted(neighbours, key=lambda m: -sizes[m].num_rows * sizes[m].num_cols):
        if root in places:
            continue
        places[root] = MatrixPlace(root, 0, 0)
        waiting = [root]
        while waiting:
            matrix = waiting.pop()
            for _, other, row_shift, col_shift in neighbours[matrix]:
                row, col = places[matrix].row + row_shift, places[matrix].col + col_shift
                fits = 0 <= row <= sizes[root].num_rows - sizes[other].num_rows
                if other not in places and fits and 0 <= col <= sizes[root].num_cols - sizes[other].num_cols:
                    places[other] = MatrixPlace(root, row, col)
                    waiting.append(other)
    alone = {place.matrix for place in places.values()} - {p.matrix for m, p in places.items() if m != p.matrix}
    return {matrix: place for matrix, place in places.items() if place.matrix not in alone}


def _without(pairs: Sequence[Pair], conflicts: set[tuple[int, int]], done: dict[int, MatrixPlace]) -> list[Pair]:
    """Returns the pairs left to try, fewer than before: those of failed groups that are part of no conflict."""
    left = [pair for pair in pairs if pair.source not in done and pair.dest not in done]
    for victim, other in conflicts:
        direct = [pair for pair in left if {pair.source, pair.dest} == {victim, other}]
        gone = direct or [pair for pair in left if pair.source == victim] or [p for p in left if victim in p[:2]]
        left = [pair for pair in left if pair not in gone]
    # A pair that did not fit into its group waits for the group to fall apart, unless nothing else will happen.
    return left if conflicts else []


# ---- rewriting ----


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
