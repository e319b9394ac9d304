"""The printed form of a computation: its matrices, then one line a command, `c3: m2 += 0.5 * m1(0:9, 20:39)`.

The lines of commands stand beside the commands, and their parts in `formatting`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3.ir.commands_control import SegmentMarker
from nnet3.ir.declarations import Command
from nnet3.ir.formatting import format_submatrix as format_submatrix, index_table
from nnet3.ir.repeats import repeats

if TYPE_CHECKING:
    from nnet3.ir.computation import NnetComputation


def print_computation(computation: NnetComputation, max_commands: int | None = None) -> str:
    """Returns the computation as text: at most `max_commands` commands, and how many were left out."""
    lines = [summary(computation), *introductions(computation)]
    shown = computation.commands[:max_commands]
    in_body = commands_in_bodies(computation)
    lines += [numbered_command(computation, number, number in in_body) for number in range(len(shown))]
    if len(shown) < len(computation.commands):
        lines.append(f"... {len(computation.commands) - len(shown)} more commands")
    return "\n".join(lines)


def summary(computation: NnetComputation) -> str:
    """Returns one line with the numbers of matrices, commands and segments."""
    segments = 1 + sum(isinstance(command, SegmentMarker) for command in computation.commands)
    counts = (
        _count(len(computation.matrices) - 1, "matrix", "matrices"),
        _count(len(computation.commands), "command"),
        _count(segments, "segment"),
    )
    return "# " + ", ".join(counts)


def numbered_command(computation: NnetComputation, number: int, in_body: bool = False) -> str:
    """Returns a command after its number, `c3: m2 += m1`; indented in the body of a Repeat."""
    return f"{'  ' * in_body}c{number}: {format_command(computation, computation.commands[number])}"


def commands_in_bodies(computation: NnetComputation) -> set[int]:
    """Returns the numbers of the commands that a Repeat repeats."""
    return {number for _, body in repeats(computation) for number in body}


def format_command(computation: NnetComputation, command: Command) -> str:
    """Returns a command without its number, `m2 += m1`."""
    return command.text(computation)


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def introductions(computation: NnetComputation) -> list[str]:
    """Returns a line for every used matrix: size, contents, and the name of outside memory."""
    outside = {
        computation.submatrices[bound.submatrix].matrix: bound
        for bound in computation.outside
        if 0 < bound.submatrix < len(computation.submatrices)
    }
    used = used_matrices(computation) | set(outside)
    lines = []
    for matrix, size in enumerate(computation.matrices):
        if matrix not in used:
            continue
        line = f"m{matrix}({size.num_rows}, {size.num_cols}{', ' + size.dtype if size.dtype else ''})"
        info = computation.matrix_info.get(matrix)
        if info is not None:
            rows = "without samples" if info.indexes is None else index_table(info.indexes)
            line += f" == {'derivative' if info.is_deriv else 'value'}: {info.node} {rows}"
        if matrix in outside:
            bound = outside[matrix]
            line += f" in outside memory '{bound.name}'{'' if bound.writable else ' (read only)'}"
        lines.append(line)
    return lines


def used_matrices(computation: NnetComputation) -> set[int]:
    """Returns the numbers of the matrices that some command names."""
    named = {number for command in computation.commands for number in command.form.operands(command)}
    for command in computation.commands:
        named.update(access.submatrix for access in command.accesses(computation))
    return {computation.submatrices[number].matrix for number in named if 0 < number < len(computation.submatrices)}
