"""The printed form of a computation: its matrices, then one line a command, `c3: m2 += 0.5 * m1(0:9, 20:39)`.

The lines of commands stand beside the commands (`lines`), and their parts in `formatting`. The full form says all that
a run needs; `parser` reads it.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from nnet3.ir.commands_control import SegmentMarker
from nnet3.ir.declarations import Command
from nnet3.ir.formatting import format_submatrix as format_submatrix, index_table, kernel_name, written_name
from nnet3.ir.kernel import InputPromises, KernelInfo
from nnet3.ir.lines import line_of
from nnet3.ir.repeats import repeats

if TYPE_CHECKING:
    from nnet3.ir.computation import NnetComputation


def print_computation(computation: NnetComputation, max_commands: int | None = None, *, full: bool = False) -> str:
    """Returns the computation as text: at most `max_commands` commands, and how many were left out.

    The full form leaves out nothing but the numbers of commands: `nnet3.ir.parser.parse_computation` reads it.
    """
    if full:
        lines = [*_header(computation), *introductions(computation, full=True)]
        lines += [*_inputs_and_outputs(computation), *_precomputed(computation)]
    else:
        lines = [summary(computation), *introductions(computation)]
    shown = computation.commands[:max_commands]
    in_body = commands_in_bodies(computation)
    for number, command in enumerate(shown):
        written = format_command(computation, command, full) if full else numbered_command(computation, number)
        lines.append(f"{'  ' * (number in in_body)}{written}")
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


def format_command(computation: NnetComputation, command: Command, full: bool = False) -> str:
    """Returns a command without its number, `m2 += m1`, in full with whole lists and all digits."""
    return line_of(type(command)).write(computation, command, full)


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


# ---- what stands before the commands ----


def introductions(computation: NnetComputation, full: bool = False) -> list[str]:
    """Returns a line for every used matrix: size, contents, and the name of outside memory."""
    outside = {
        computation.submatrices[bound.submatrix].matrix: bound
        for bound in computation.outside
        if 0 < bound.submatrix < len(computation.submatrices)
    }
    used = used_matrices(computation) | set(outside)
    if full:
        exchanged = [number for io in (*computation.inputs, *computation.outputs) for number in (io.value, io.deriv)]
        used |= {computation.submatrices[number].matrix for number in exchanged if number}
    lines = []
    for matrix, size in enumerate(computation.matrices):
        if matrix not in used:
            continue
        line = f"m{matrix}({size.num_rows}, {size.num_cols}{', ' + size.dtype if size.dtype else ''})"
        info = computation.matrix_info.get(matrix)
        if info is not None:
            rows = "without samples" if info.indexes is None else index_table(info.indexes, full)
            line += f" == {'derivative' if info.is_deriv else 'value'}: {written_name(info.node, full)} {rows}"
        if matrix in outside:
            bound = outside[matrix]
            name = written_name(bound.name, full, quoted=True)
            line += f" in outside memory {name}{'' if bound.writable else ' (read only)'}"
        lines.append(line)
    return lines


def used_matrices(computation: NnetComputation) -> set[int]:
    """Returns the numbers of the matrices that some command names."""
    named = {number for command in computation.commands for number in command.form.operands(command)}
    for command in computation.commands:
        named.update(access.submatrix for access in command.accesses(computation))
    return {computation.submatrices[number].matrix for number in named if 0 < number < len(computation.submatrices)}


def _header(computation: NnetComputation) -> list[str]:
    """Returns lines for what is true of the whole program, and a line for every kernel."""
    lines = [f"made for {aspect!r} {digest!r}" for aspect, digest in computation.fingerprint.items()]
    lines += ["with model derivative"] if computation.need_model_derivative else []
    lines += [f"memos {computation.num_memos}"] if computation.num_memos else []
    return [*lines, *(_kernel(computation, number) for number in range(len(computation.kernels)))]


def _kernel(computation: NnetComputation, number: int) -> str:
    """Returns `kernel sum [row_by_row] of [is_linear], [is_linear]`: promises, then those about each input."""
    kernel = computation.kernels[number]
    inputs = ", ".join(f"[{', '.join(changed_flags(promises))}]" for promises in kernel.inputs)
    flags = ", ".join(changed_flags(kernel))
    return f"kernel {kernel_name(computation, number, full=True)} [{flags}] of {inputs}".rstrip()


def changed_flags(promises: KernelInfo | InputPromises) -> list[str]:
    """Returns the flags that differ from their defaults, `is_random` or `not backprop_is_linear`."""
    flags = [field for field in fields(promises) if isinstance(field.default, bool)]
    changed = [field for field in flags if getattr(promises, field.name) != field.default]
    return [f"{'not ' if field.default else ''}{field.name}" for field in changed]


def _inputs_and_outputs(computation: NnetComputation) -> list[str]:
    lines = []
    for kind, exchanged in (("input", computation.inputs), ("output", computation.outputs)):
        for io in exchanged:
            deriv = f", derivative {format_submatrix(computation, io.deriv)}" if io.deriv else ""
            lines.append(f"{kind} {io.name!r} is {format_submatrix(computation, io.value)}{deriv}")
    return lines


def _precomputed(computation: NnetComputation) -> list[str]:
    """Returns for each precomputed entry the rows behind it, if they are known, and a line an array."""
    lines = []
    for number, entry in enumerate(computation.precomputed[1:], start=1):
        lines.append(f"precomputed {number}")
        if number <= len(computation.precomputed_rows):
            rows = computation.precomputed_rows[number - 1]
            way = "backward" if rows.runs_backward else "forward"
            lines[-1] += f" of {written_name(rows.node, full=True)}, {way}{', going on' * rows.go_on}"
            lines[-1] += f": {index_table(rows.inputs, full=True)} to {index_table(rows.outputs, full=True)}"
        for name, array in (entry or {}).items():
            values = ", ".join(map(repr, array.ravel().tolist()))
            shape = ", ".join(map(str, array.shape))
            lines.append(f"  {written_name(name, full=True)} = {array.dtype.name}({shape}) [{values}]")
    return lines
