"""Compiles a network for a request and prints what comes of every stage: what `show-computation` does."""

from __future__ import annotations

import re
import time

import click
import numpy as np

from nnet3.cli.files import read_network_or_config
from nnet3.cli.messages import print_warnings
from nnet3.cli.profile_network import MAX_ROWS, times_first
from nnet3.cli.show_commands import grouped_commands
from nnet3.cli.show_passes import show_passes
from nnet3.compiler import ComputationRequest, IoSpecification, build_graph, compile_family, generate, schedule
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import NnetComputation
from nnet3.ir.passes.pipeline import optimize as run_passes
from nnet3.nnet import Nnet
from nnet3.options import CompileOptions
from nnet3.runtime import NnetComputer
from nnet3.runtime.profile import profile

_FRAMES, _FAMILY_FRAMES = 10, 200  # that are asked for unless the user says which
_RANGE = re.compile(r"([^=]+)=(-?\d+)(?::(-?\d+)(?::(\d+))?)?")


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
    """Print request, sizes of graph and schedule, and the computation; see the options of the verb."""
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
    """The time of each command by its number, the average of a few runs on random numbers."""
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
    """The request for these texts NAME=FIRST:LAST[:STEP], or for so many frames of each output and what they need."""
    wanted = _all_times("--output", outputs) or {name: np.arange(frames) for name in nnet.output_names}
    given = _all_times("--input", inputs) or _needed_inputs(nnet, wanted)
    rows = num_sequences * max(len(times) for times in (*wanted.values(), *given.values()))
    if rows > MAX_ROWS:
        raise click.UsageError(f"{rows:,} rows are too many: at most {MAX_ROWS:,} at each input and output")
    return ComputationRequest(
        [IoSpecification(name, times_first(times, num_sequences)) for name, times in given.items()],
        [
            IoSpecification(name, times_first(times, num_sequences), has_deriv=backward)
            for name, times in wanted.items()
        ],
        need_model_derivative=backward,
        store_component_stats=backward,
    )


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
