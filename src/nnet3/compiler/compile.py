"""compile: an optimized program for a network and a request; and the stages on the way, one function each."""

from __future__ import annotations

from nnet3.compiler.nnet_source import nnet_source
from nnet3.compiler.request import ComputationRequest, check_request, checked_options, lowering_request
from nnet3.driver import compile_task, task_of
from nnet3.ir.computation import NnetComputation
from nnet3.lowering import ComputationGraph, Schedule
from nnet3.lowering import build_graph as lowered_graph
from nnet3.lowering import generate as generate_program
from nnet3.lowering import schedule as schedule_graph
from nnet3.nnet import Nnet
from nnet3.options import CompileOptions


def build_graph(nnet: Nnet, request: ComputationRequest) -> ComputationGraph:
    """The cindexes that the request involves, and what each uses.

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
    times = request.deriv_times(checked_options(options))
    return generate_program(nnet_source(nnet), lowering_request(nnet, request, times), steps)


def compile(nnet: Nnet, request: ComputationRequest, options: CompileOptions | None = None) -> NnetComputation:
    """The program that computes what the request asks for.

    It holds for the network as it is now: after a change of its structure, or of a component's test mode, compile
    again (a `ComputationCache` does so by itself); to run it then is an error that says what has changed.

    Raises RequestError or NotComputableError.
    """
    return compile_task(task_of(nnet, request, options))
