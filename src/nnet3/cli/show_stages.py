"""Compiles a network for a request and prints what comes of every stage: what `show-computation` does."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Collection, Iterator, Mapping

import click
import numpy as np

from nnet3.base.options.compiling import CompileOptions
from nnet3.cli.files import read_network_or_config
from nnet3.cli.messages import print_warnings
from nnet3.cli.profile_network import MAX_ROWS, times_first
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.commands_control import SegmentMarker
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import AccessMode, Command, Life, OperandField
from nnet3.engine.ir.passes.pipeline import optimize, optimize as run_passes
from nnet3.engine.runtime import NnetComputer
from nnet3.engine.runtime.plan import Plan
from nnet3.engine.runtime.planning import plan
from nnet3.engine.runtime.profile import profile
from nnet3.model.nnet import Nnet
from nnet3.model.requests import ComputationRequest, IoSpecification, build_graph, compile_family, generate, schedule
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode

_MICROSECONDS = 1e6


def grouped_commands(
    computation: NnetComputation,
    nnet: Nnet,
    max_commands: int | None = None,
    seconds: Mapping[int, float] | None = None,
) -> str:
    """Prints matrices, then commands in groups, after their times in microseconds where `seconds` has them.

    `max_commands`: the largest number of commands printed; the number of commands left out follows.
    """
    lines = [f"# {computation.summary()}", *computation.introductions()]
    backward = any(io.deriv for io in (*computation.inputs, *computation.outputs))
    phase = "forward" if backward else ""
    group: tuple[str, bool] | None = None
    for number, command in enumerate(computation.commands[:max_commands]):
        subject = _subject(computation, command)
        if subject is not None and subject != group:
            group = subject
            lines += ["", f"# {phase + ': ' if phase else ''}{_comment(nnet, *subject)}"]
        lines.append(_with_time(computation.numbered_command(number), number, seconds))
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
    if any(isinstance(f.declared, OperandField) and f.declared.life is Life.ENDS for f in command.schema.fields):
        return None
    accesses = command.accesses(computation)
    written = [access.submatrix for access in accesses if access.mode != AccessMode.READ]
    allocated = [] if accesses else [number for number in command.schema.operands(command) if number]
    for submatrix in (*written, *allocated):
        info = computation.matrix_info.get(computation.submatrices[submatrix].matrix)
        if info is not None:
            return info.node, info.is_deriv
    node = getattr(command, "node", None)  # a kernel that only updates the model
    return None if node is None else (str(node), True)


def _comment(nnet: Nnet, name: str, is_deriv: bool) -> str:
    """Returns a node's name and description."""
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
        return f"{what} = {node.columns} of {node.source}"
    return f"{what}, an input"


_LINES_AROUND = 1


def show_passes(
    computation: NnetComputation, disabled: Collection[str], level: int, max_lines: int | None
) -> NnetComputation:
    """Runs the passes; prints commands, calls and bytes before and after each, and at most `max_lines` changed lines.

    Changes are lines of commands: `-` for a removed command, `+` for a new command. Returns the optimized computation.
    """
    before, sizes = computation, plan(computation)

    def show(name: str, after: NnetComputation) -> None:
        nonlocal before, sizes
        if after is before:
            click.echo(f"pass {name}: nothing to do") if name else None
            return
        old, sizes = sizes, plan(after)
        click.echo(f"pass {name or 'unroll'}: {_sizes(before, old, after, sizes)}")
        changes = list(_changes(before, after))
        for line in changes[:max_lines]:
            click.echo(f"  {line}")
        if max_lines is not None and len(changes) > max_lines:
            click.echo(f"  ... and {len(changes) - max_lines} more lines")
        before = after

    optimized = optimize(computation, disabled, check_between=True, dump=show, level=level, prove=True)
    click.echo("proved: the optimized program computes what the first one computes")
    return optimized


def _sizes(before: NnetComputation, old: Plan, after: NnetComputation, new: Plan) -> str:
    counts = (
        ("commands", len(before.commands), len(after.commands)),
        ("calls", old.num_calls, new.num_calls),
        ("bytes", old.num_bytes, new.num_bytes),
    )
    return ", ".join(f"{a:,} -> {b:,} {what}" if a != b else f"{a:,} {what}" for what, a, b in counts)


def _changes(before: NnetComputation, after: NnetComputation) -> Iterator[str]:
    """Yields the removed and new commands, with a line of context, without their numbers."""
    old, new = ([command.text(each) for command in each.commands] for each in (before, after))
    found = difflib.unified_diff(old, new, n=_LINES_AROUND, lineterm="")
    return (line for number, line in enumerate(found) if number > 1 and not line.startswith("@@"))


_FRAMES, _FAMILY_FRAMES = 10, 200  # that are asked for unless the user says which
_RANGE = re.compile(r"([^=]+)=(-?\d{1,10})(?::(-?\d{1,10})(?::(\d{1,10}))?)?")


def show_stages(
    network: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    num_sequences: int,
    backward: bool,
    optimize: bool,
    level: int,
    disabled: tuple[str, ...],
    graph: bool,
    steps: bool,
    passes: bool,
    family: bool,
    max_commands: int | None,
    profiled: bool,
) -> None:
    """Prints request, sizes of graph and schedule, and the computation; see the options of the verb."""
    nnet = read_network_or_config(network)
    print_warnings(nnet.warnings)
    request = request_of_times(nnet, inputs, outputs, num_sequences, backward, _FAMILY_FRAMES if family else _FRAMES)
    for line in str(request).splitlines():
        click.echo(f"request: {line}")
    if family:
        options = CompileOptions(optimize=optimize, level=level, disabled_passes=frozenset(disabled))
        click.echo(compile_family(nnet, request, options))
        return
    start = time.perf_counter()
    cindexes = build_graph(nnet, request)
    start = _report("graph", f"{cindexes.num_cindexes} cindexes, {len(cindexes.dependencies[1])} dependencies", start)
    if graph:
        click.echo(cindexes.text())
    start = time.perf_counter()
    organized = schedule(nnet, cindexes)
    start = _report("schedule", organized.summary(), start)
    if steps:
        click.echo(organized.text())
    start = time.perf_counter()
    computation = generate(nnet, request, organized)
    start = _report("commands", f"{len(computation.commands)} before optimization", start)
    check_computation(computation)
    if optimize:
        start = time.perf_counter()
        computation = (
            show_passes(computation, disabled, level, max_commands)
            if passes
            else run_passes(computation, disabled, check_between=True, level=level)
        )
        _report("optimized", f"{len(computation.commands)} commands", start)
    click.echo(grouped_commands(computation, nnet, max_commands, _seconds(computation, nnet) if profiled else None))


def _seconds(computation: NnetComputation, nnet: Nnet) -> dict[int, float]:
    """Returns the time of each command by its number, the average of a few runs on random numbers."""
    computation.fingerprint = nnet.fingerprint()
    to_update = nnet.gradient_copy() if computation.need_model_derivative else None
    computer = NnetComputer(computation, nnet, to_update, check_finite=False)
    return {timing.number: timing.seconds for timing in profile(computer).times}


def _report(stage: str, text: str, start: float) -> float:
    now = time.perf_counter()
    click.echo(f"{stage}: {text} ({now - start:.3f} s)")
    return now


def request_of_times(
    nnet: Nnet,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    num_sequences: int,
    backward: bool,
    frames: int = _FRAMES,
) -> ComputationRequest:
    """Returns the request of texts NAME=FIRST:LAST[:STEP], or of `frames` frames of each output and needed inputs."""
    _check_rows(frames)
    wanted = _all_times("--output", outputs) or {name: np.arange(frames) for name in nnet.output_names}
    given = _all_times("--input", inputs) or _needed_inputs(nnet, wanted)
    _check_rows(num_sequences * max(len(times) for times in (*wanted.values(), *given.values())))
    return ComputationRequest(
        [IoSpecification(name, times_first(times, num_sequences)) for name, times in given.items()],
        [
            IoSpecification(name, times_first(times, num_sequences), has_deriv=backward)
            for name, times in wanted.items()
        ],
        need_model_derivative=backward,
        store_component_stats=backward,
    )


def _check_rows(rows: int) -> None:
    if rows > MAX_ROWS:
        raise click.UsageError(f"{rows:,} rows are too many: at most {MAX_ROWS:,} at each input and output")


def _all_times(option: str, texts: tuple[str, ...]) -> dict[str, np.ndarray]:
    times = dict(_times(text) for text in texts)
    if len(times) < len(texts):
        raise click.UsageError(f"{option} names an input or output twice: {', '.join(texts)}")
    return times


def _times(text: str) -> tuple[str, np.ndarray]:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise click.UsageError(f"'{text}' is not NAME=FIRST:LAST or NAME=FIRST:LAST:STEP, for instance output=0:9")
    first, last, step = int(match[2]), int(match[3] or match[2]), int(match[4] or 1)
    if last < first or step < 1 or (last - first) // step >= MAX_ROWS or max(abs(first), abs(last)) >= 2**30:
        raise click.UsageError(
            f"'{text}': FIRST must not be after LAST, STEP at least 1, and the range of sensible size"
        )
    return match[1].strip(), np.arange(first, last + 1, step)


def _needed_inputs(nnet: Nnet, wanted: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if not nnet.is_simple:
        names = ", ".join(nnet.input_names)
        raise click.UsageError(f"the network is not simple: say with --input what is given (it has inputs {names})")
    first, last = (f(f(times) for times in wanted.values()) for f in (min, max))
    needed = {"input": np.arange(first - nnet.left_context, last + nnet.right_context + 1)}
    if "ivector" in nnet.input_names:
        needed["ivector"] = np.arange(1)
    return needed
