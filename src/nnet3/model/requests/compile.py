"""compile: an optimized program for a network and a request; and the stages on the way, one function a stage."""

from __future__ import annotations

from nnet3.base.index import N, distinct
from nnet3.base.options.compiling import CompileOptions
from nnet3.engine.driver import CompiledFamily, FamilyStore, compile_task, prove_made_of_others, task_of
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering.build_graph import build_graph as lowered_graph
from nnet3.engine.lowering.generate import generate as generate_program
from nnet3.engine.lowering.graph import ComputationGraph
from nnet3.engine.lowering.schedule import Schedule
from nnet3.engine.lowering.scheduler import schedule as schedule_graph
from nnet3.model.nnet import Nnet
from nnet3.model.requests.nnet_source import nnet_source
from nnet3.model.requests.request import ComputationRequest, check_request, checked_options, lowering_request


def build_graph(nnet: Nnet, request: ComputationRequest) -> ComputationGraph:
    """Returns the cindexes involved in a request, and the cindexes used by each.

    Raises RequestError for a request that does not fit the network, NotComputableError for outputs out of reach.
    """
    check_request(nnet, request)
    return lowered_graph(nnet_source(nnet), lowering_request(nnet, request))


def schedule(nnet: Nnet, graph: ComputationGraph) -> Schedule:
    """Puts the cindexes of a graph into steps, in order. Raises RequestError where values depend on themselves."""
    return schedule_graph(nnet_source(nnet), graph)


def generate(
    nnet: Nnet, request: ComputationRequest, steps: Schedule, options: CompileOptions | None = None
) -> NnetComputation:
    """Returns the program for a schedule, not yet optimized; of the options only those of derivative times matter."""
    times = request.deriv_times(checked_options(options))
    return generate_program(nnet_source(nnet), lowering_request(nnet, request, times), steps)


def compile(nnet: Nnet, request: ComputationRequest, options: CompileOptions | None = None) -> NnetComputation:
    """Returns the program of a request.

    The program holds for the present network: after a change of the structure, or of a component's test mode, compile
    again (a `ComputationCache` does so by itself); running an outdated program is an error that names the change.

    A long recurrence comes as a Repeat, which takes no longer to compile than a short one.

    Raises RequestError or NotComputableError.
    """
    task = task_of(nnet, request, options)
    program = FamilyStore().program(task)
    if program is None:
        return compile_task(task)
    shape = [len(rows) for rows in task.rows()]
    prove_made_of_others(task.lowered_from, task.options, program, shape)
    return program


def compile_family(nnet: Nnet, request: ComputationRequest, options: CompileOptions | None = None) -> CompiledFamily:
    """Compiles requests like the given one for any number of frames; a printed family shows its parameters.

        family = nnet3.compile_family(nnet, request)       # of 100 frames of 5 sequences, say
        computation = family.at(frames=1234, sequences=64)

    With five sequences or more that are alike, n = 0, 1, ..., the number of sequences is free too. Raises RequestError
    if the request is too short to tell how longer ones go on, or if the network's programs do not go on alike; and the
    errors of `compile`.
    """
    task = task_of(nnet, request, options)
    return CompiledFamily(task, len(request.inputs), len(distinct(request.outputs[0].indexes[:, N])))
