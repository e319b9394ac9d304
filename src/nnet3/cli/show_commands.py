"""The commands of a computation in groups: what belongs to one node, forward or backward, under a line that says so."""

from __future__ import annotations

from collections.abc import Mapping

from nnet3.ir.commands_control import SegmentMarker
from nnet3.ir.computation import NnetComputation
from nnet3.ir.declarations import AccessKind, Command, Life, OperandField
from nnet3.ir.printer import introductions, numbered_command, summary
from nnet3.nnet import Nnet
from nnet3.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode

_MICROSECONDS = 1e6


def grouped_commands(
    computation: NnetComputation,
    nnet: Nnet,
    max_commands: int | None = None,
    seconds: Mapping[int, float] | None = None,
) -> str:
    """Prints matrices, then commands in groups, each after its time in microseconds if `seconds` has it.

    `max_commands`: print only so many commands, and the number of those left out.
    """
    lines = [summary(computation), *introductions(computation)]
    backward = any(io.deriv for io in (*computation.inputs, *computation.outputs))
    phase = "forward" if backward else ""
    group: tuple[str, bool] | None = None
    for number, command in enumerate(computation.commands[:max_commands]):
        subject = _subject(computation, command)
        if subject is not None and subject != group:
            group = subject
            lines += ["", f"# {phase + ': ' if phase else ''}{_comment(nnet, *subject)}"]
        lines.append(_with_time(numbered_command(computation, number), number, seconds))
        if isinstance(command, SegmentMarker):
            phase, group = "backward" if backward else "", None
    left_out = len(computation.commands) - len(computation.commands[:max_commands])
    if left_out:
        lines.append(f"... {left_out} more commands")
    if seconds is not None:
        lines.append(f"# {sum(seconds.values()) * 1e3:.3f} ms in all")
    return "\n".join(lines)


def _with_time(line: str, number: int, seconds: Mapping[int, float] | None) -> str:
    if seconds is None:
        return line
    time = f"{seconds[number] * _MICROSECONDS:.1f} us" if number in seconds else ""
    return f"{time:>12}  {line}"


def _subject(computation: NnetComputation, command: Command) -> tuple[str, bool] | None:
    """Returns a command's node and True for its derivative; None for a command of no node, such as freeing."""
    if any(isinstance(f.declared, OperandField) and f.declared.life is Life.ENDS for f in command.form.fields):
        return None
    accesses = command.accesses(computation)
    written = [access.submatrix for access in accesses if access.kind != AccessKind.READ]
    allocated = [] if accesses else [number for number in command.form.operands(command) if number]
    for submatrix in (*written, *allocated):
        info = computation.matrix_info.get(computation.submatrices[submatrix].matrix)
        if info is not None:
            return info.node, info.is_deriv
    node = getattr(command, "node", None)  # a kernel that only updates the model
    return None if node is None else (str(node), True)


def _comment(nnet: Nnet, name: str, is_deriv: bool) -> str:
    """A node's name and what it is."""
    what = f"derivative of {name}" if is_deriv else name
    if name not in nnet.node_number:
        return what
    node = nnet.node(name)
    if isinstance(node, ComponentNode):
        component = nnet.component_of(node)
        return f"{what} = {component.type_name} {node.component}, {component.input_dim} -> {component.output_dim}"
    if isinstance(node, DescriptorNode):
        return f"{what} = {node.descriptor}"
    if isinstance(node, DimRangeNode):
        return f"{what} = columns {node.dim_offset} to {node.dim_offset + node.dim - 1} of {node.source}"
    return f"{what}, an input"
