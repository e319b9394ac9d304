"""Lines of the full text of a program that its short text leaves out: kernels, inputs, outputs, precomputed arrays."""

from __future__ import annotations

from dataclasses import fields

from nnet3.engine.ir.formatting import format_submatrix, index_table, kernel_name, written_name
from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.engine.ir.program_tables import ProgramTables


def header_lines(computation: ProgramTables) -> list[str]:
    """Returns lines for what is true of the whole program, and a line for every kernel."""
    lines = ["with model derivative"] if computation.need_model_derivative else []
    return [*lines, *(_kernel(computation, number) for number in range(len(computation.kernels)))]


def _kernel(computation: ProgramTables, number: int) -> str:
    """Returns `kernel sum [row_by_row] of [is_linear], [is_linear]`: promises, then those about each input."""
    kernel = computation.kernels[number]
    inputs = ", ".join(f"[{', '.join(_changed_flags(promises))}]" for promises in kernel.inputs)
    flags = ", ".join(_changed_flags(kernel))
    return f"kernel {kernel_name(computation, number, full=True)} [{flags}] of {inputs}".rstrip()


def _changed_flags(promises: KernelInfo | InputPromises) -> list[str]:
    """Returns the flags that differ from their defaults, `is_random` or `not backprop_is_linear`."""
    flags = [field for field in fields(promises) if isinstance(field.default, bool)]
    changed = [field for field in flags if getattr(promises, field.name) != field.default]
    return [f"{'not ' if field.default else ''}{field.name}" for field in changed]


def footer_lines(computation: ProgramTables) -> list[str]:
    """Returns lines for inputs and outputs, and for precomputed entries."""
    return [*_inputs_and_outputs(computation), *_precomputed(computation)]


def _inputs_and_outputs(computation: ProgramTables) -> list[str]:
    lines = []
    for kind, exchanged in (("input", computation.inputs), ("output", computation.outputs)):
        for io in exchanged:
            deriv = f", derivative {format_submatrix(computation, io.deriv)}" if io.deriv else ""
            lines.append(f"{kind} {io.name!r} is {format_submatrix(computation, io.value)}{deriv}")
    return lines


def _precomputed(computation: ProgramTables) -> list[str]:
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
