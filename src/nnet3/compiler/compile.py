"""compile: all stages from a network and a request to an optimized, checked computation."""

from __future__ import annotations

import numpy as np

from nnet3.compiler.nnet_source import lowering_request, nnet_source
from nnet3.compiler.request import ComputationRequest, check_request
from nnet3.errors import RequestError, check_kind
from nnet3.index import T
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import NnetComputation
from nnet3.ir.passes.pipeline import optimize
from nnet3.lowering import ComputationGraph, Schedule, lower
from nnet3.lowering import build_graph as lowered_graph
from nnet3.lowering import generate as generate_program
from nnet3.lowering import schedule as schedule_graph
from nnet3.nnet import Nnet
from nnet3.options import CompileOptions

_INT32 = np.iinfo(np.int32)


def times_with_derivs(options: CompileOptions, request: ComputationRequest) -> tuple[int, int] | None:
    """The first and the last t with derivatives; None for no limits. Raises RequestError if there is none."""
    first, last = options.min_deriv_time, options.max_deriv_time
    if options.max_deriv_time_relative is not None:
        times = [io.indexes[:, T].max() for io in request.outputs if len(io.indexes)]
        last = int(max(times, default=0)) + options.max_deriv_time_relative
    if first is None and last is None:
        return None
    first = int(_INT32.min) if first is None else first
    last = int(_INT32.max) if last is None else last
    if first > last:
        raise RequestError(
            f"min_deriv_time is {first}, but max_deriv_time_relative = {options.max_deriv_time_relative} ends "
            f"derivatives at t = {last}: give a larger one, or an earlier min_deriv_time"
        )
    return first, last


def checked_options(options: CompileOptions | None) -> CompileOptions:
    """The options, or the default ones. Raises ArgumentError for something else."""
    check_kind(options, (CompileOptions, type(None)), "the options of compile", "CompileOptions")
    return CompileOptions() if options is None else options


def build_graph(nnet: Nnet, request: ComputationRequest) -> ComputationGraph:
    """Which cindexes the request involves and what each uses.

    Raises RequestError for a request that does not fit the network, NotComputableError for outputs out of reach.
    """
    check_request(nnet, request)
    return lowered_graph(nnet_source(nnet), lowering_request(nnet, request))


def schedule(nnet: Nnet, graph: ComputationGraph) -> Schedule:
    """The cindexes of a graph in steps, the order of work. Raises RequestError where values depend on themselves."""
    return schedule_graph(nnet_source(nnet), graph)


def generate(
    nnet: Nnet, request: ComputationRequest, steps: Schedule, options: CompileOptions | None = None
) -> NnetComputation:
    """The program for a schedule, not yet optimized; of the options only those of derivative times matter."""
    times = times_with_derivs(checked_options(options), request)
    return generate_program(nnet_source(nnet), lowering_request(nnet, request, times), steps)


def compile(nnet: Nnet, request: ComputationRequest, options: CompileOptions | None = None) -> NnetComputation:
    """The program that computes what the request asks for.

    It holds for the network as it is now: after a change of its structure, or of a component's test mode, compile
    again (a `ComputationCache` does so by itself); to run it then is an error that says what has changed.

    Raises RequestError or NotComputableError.
    """
    options = checked_options(options)
    check_request(nnet, request)
    computation = lower(nnet_source(nnet), lowering_request(nnet, request, times_with_derivs(options, request)))
    if options.check:
        check_computation(computation)
    if options.optimize:
        computation = optimize(computation, disabled=options.disabled_passes, check_between=options.check)
    computation.fingerprint = nnet.fingerprint()
    return computation
