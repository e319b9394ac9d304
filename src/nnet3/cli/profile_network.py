"""Runs a network on random numbers and says where the time goes: what the verb `profile` does."""

from __future__ import annotations

import time

import click
import numpy as np

from nnet3.base.options.compiling import CompileOptions
from nnet3.cli.files import read_network_or_config
from nnet3.cli.messages import print_warnings, say
from nnet3.engine.runtime import NnetComputer
from nnet3.engine.runtime.profile import KEYS, profile
from nnet3.model.edits.collapse import prepare_for_test
from nnet3.model.nnet import Nnet
from nnet3.model.nnet.simple import what_is_simple
from nnet3.model.requests import ComputationRequest, IoSpecification, compile

MAX_ROWS = 10_000_000


def print_profile(
    network: str,
    num_sequences: int,
    frames: int,
    factor: int,
    train: bool,
    optimize: bool,
    level: int,
    by: str,
    limit: int,
    repeats: int,
    trace: str | None,
    device: str,
) -> None:
    """Prints a table and writes a trace; see the options of the verb."""
    keys = by.split(",")
    if not set(keys) <= set(KEYS):
        raise click.UsageError(f"--by={by}: give some of {','.join(KEYS)}, for instance node,kind")
    nnet = read_network_or_config(network)
    print_warnings(nnet.warnings)
    if not nnet.is_simple:
        raise click.UsageError(f"only a simple network can be profiled: {what_is_simple(nnet.parts)}")
    if not train:
        prepare_for_test(nnet)
    nnet.to(device=device)
    request = _request(nnet, num_sequences, frames, factor, train)
    start = time.perf_counter()
    computation = compile(nnet, request, CompileOptions(optimize=optimize, level=level))
    compiled = time.perf_counter()
    computer = NnetComputer(computation, nnet, nnet.gradient_copy() if train else None, device, check_finite=False)
    planned = time.perf_counter()
    report = profile(computer, repeats=repeats)
    plan = computer.plan
    size = f"{len(computation.commands)} commands, {plan.num_calls} calls, {plan.num_bytes / 1e6:.1f} MB"
    times = f"compiled in {compiled - start:.3f} s, planned in {planned - compiled:.3f} s"
    say(f"{size}; {times}, one run {report.seconds:.4f} s")
    click.echo(report.table(keys, limit))
    if trace is not None:
        report.write_trace(trace)


def _request(nnet: Nnet, num_sequences: int, frames: int, factor: int, train: bool) -> ComputationRequest:
    span = frames * factor
    rows = num_sequences * (nnet.left_context + span + nnet.right_context)
    if rows > MAX_ROWS:
        raise click.UsageError(f"{rows:,} rows are too many: at most {MAX_ROWS:,}")
    last = span - factor + nnet.right_context
    inputs = [IoSpecification("input", times_first(np.arange(-nnet.left_context, last + 1), num_sequences))]
    if "ivector" in nnet.input_names:
        inputs.append(IoSpecification("ivector", times_first(np.arange(1), num_sequences)))
    outputs = [IoSpecification("output", times_first(np.arange(0, span, factor), num_sequences), has_deriv=train)]
    return ComputationRequest(inputs, outputs, need_model_derivative=train, store_component_stats=train)


def times_first(times: np.ndarray, num_sequences: int) -> np.ndarray:
    """Returns the indexes of all sequences at the first time, then at the second ...: (times * num_sequences, 3)."""
    t, n = np.meshgrid(times, np.arange(num_sequences), indexing="ij")
    return np.stack([n.ravel(), t.ravel(), np.zeros(n.size, int)], axis=1)
