"""`nnet3 show-computation`: compile a network for a request and print what comes of every stage."""

from __future__ import annotations

import re
import time

import click
import numpy as np

from nnet3.cli.files import read_network_or_config
from nnet3.cli.messages import print_warnings
from nnet3.cli.options import KALDI_BOOL
from nnet3.compiler import ComputationRequest, IoSpecification, build_graph, generate, schedule
from nnet3.computation.checker import check_computation
from nnet3.computation.passes.pipeline import optimize as run_passes
from nnet3.computation.printer import print_computation
from nnet3.nnet import Nnet

_RANGE = re.compile(r"([^=]+)=(-?\d+)(?::(-?\d+)(?::(\d+))?)?")
_MAX_ROWS = 10_000_000


@click.command("show-computation")
@click.option("--input", "inputs", multiple=True, metavar="NAME=FIRST:LAST[:STEP]", help="Times given at an input.")
@click.option("--output", "outputs", multiple=True, metavar="NAME=FIRST:LAST[:STEP]", help="Times wanted.")
@click.option("--num-sequences", type=click.IntRange(1), default=1, show_default=True, help="Sequences n = 0, 1, ...")
@click.option("--backward", type=KALDI_BOOL, default=False, show_default=True, help="With derivatives and update.")
@click.option("--optimize", type=KALDI_BOOL, default=True, show_default=True, help="Run the passes.")
@click.option("--disable-pass", "disabled", multiple=True, metavar="PASS", help="Leave out one pass.")
@click.option("--show-steps", type=KALDI_BOOL, default=False, show_default=True, help="Print every step.")
@click.option("--max-commands", type=click.IntRange(1), default=None, help="Print only so many commands.")
@click.argument("network", metavar="MODEL-OR-CONFIG")
def command(
    network: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    num_sequences: int,
    backward: bool,
    optimize: bool,
    disabled: tuple[str, ...],
    show_steps: bool,
    max_commands: int | None,
) -> None:
    """Compile a model file or a config file for a request, and print the stages.

    Without --output, every output is asked for at t = 0:9. Without --input, a simple network is given the input
    frames that these need, and an ivector at t = 0.

    \b
    Example:
      nnet3 show-computation --output output=0:9 --num-sequences 2 network.config
    """
    nnet = read_network_or_config(network)
    print_warnings(nnet.warnings)
    request = _request(nnet, inputs, outputs, num_sequences, backward)
    for line in str(request).splitlines():
        click.echo(f"request: {line}")
    start = time.perf_counter()
    graph = build_graph(nnet, request)
    start = _report("graph", f"{graph.num_cindexes} cindexes, {len(graph.dependencies[1])} dependencies", start)
    organized = schedule(nnet, graph)
    start = _report("schedule", organized.summary(), start)
    if show_steps:
        click.echo(str(organized))
    computation = generate(nnet, request, organized)
    start = _report("commands", f"{len(computation.commands)} before optimization", start)
    check_computation(computation)
    if optimize:
        start = time.perf_counter()
        computation = run_passes(computation, disabled=disabled)
        _report("optimized", f"{len(computation.commands)} commands", start)
        check_computation(computation)
    click.echo(print_computation(computation, max_commands))


def _report(stage: str, text: str, start: float) -> float:
    now = time.perf_counter()
    click.echo(f"{stage}: {text} ({now - start:.3f} s)")
    return now


def _request(
    nnet: Nnet, inputs: tuple[str, ...], outputs: tuple[str, ...], num_sequences: int, backward: bool
) -> ComputationRequest:
    wanted = _all_times("--output", outputs) or {name: np.arange(10) for name in nnet.output_names}
    given = _all_times("--input", inputs) or _needed_inputs(nnet, wanted)
    rows = num_sequences * max(len(times) for times in (*wanted.values(), *given.values()))
    if rows > _MAX_ROWS:
        raise click.UsageError(f"{rows:,} rows are too many: at most {_MAX_ROWS:,} at each input and output")
    return ComputationRequest(
        [IoSpecification(name, _indexes(times, num_sequences)) for name, times in given.items()],
        [IoSpecification(name, _indexes(times, num_sequences), has_deriv=backward) for name, times in wanted.items()],
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
    if last < first or step < 1 or (last - first) // step >= _MAX_ROWS or max(abs(first), abs(last)) >= 2**30:
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


def _indexes(times: np.ndarray, num_sequences: int) -> np.ndarray:
    """Time by time, all sequences of each."""
    t, n = np.meshgrid(times, np.arange(num_sequences), indexing="ij")
    return np.stack([n.ravel(), t.ravel(), np.zeros(n.size, int)], axis=1)
