"""compile: all stages from a network and a request to an optimized, checked computation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from nnet3.compiler.nnet_source import lowering_request, nnet_source
from nnet3.compiler.request import ComputationRequest, check_request
from nnet3.computation.checker import check_computation
from nnet3.computation.computation import NnetComputation
from nnet3.computation.passes.pipeline import optimize
from nnet3.errors import ArgumentError, check_kind
from nnet3.lowering import ComputationGraph, Schedule, lower
from nnet3.lowering import build_graph as lowered_graph
from nnet3.lowering import generate as generate_program
from nnet3.lowering import schedule as schedule_graph
from nnet3.nnet import Nnet


@dataclass(frozen=True)
class CompileOptions:
    """`optimize`: run the passes, except those named in `disabled_passes`; `check`: run the checker between them."""

    optimize: bool = True
    disabled_passes: frozenset[str] = field(default_factory=frozenset)
    check: bool = False

    def __post_init__(self) -> None:
        for flag in ("optimize", "check"):
            check_kind(getattr(self, flag), (bool, np.bool_), flag, "True or False")
        names = self.disabled_passes
        if isinstance(names, str | bytes) or not (
            isinstance(names, Collection) and all(isinstance(name, str) for name in names)
        ):
            raise ArgumentError(f"disabled_passes must be a set of names of passes, got {names!r}")
        object.__setattr__(self, "disabled_passes", frozenset(names))


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


def generate(nnet: Nnet, request: ComputationRequest, steps: Schedule) -> NnetComputation:
    """The program for a schedule, not yet optimized."""
    return generate_program(nnet_source(nnet), lowering_request(nnet, request), steps)


def compile(nnet: Nnet, request: ComputationRequest, options: CompileOptions | None = None) -> NnetComputation:
    """The program that computes what the request asks for.

    It holds for the network as it is now: after a change of its structure, or of a component's test mode, compile
    again (a `ComputationCache` does so by itself); to run it then is an error that says what has changed.

    Raises RequestError or NotComputableError.
    """
    options = checked_options(options)
    check_request(nnet, request)
    computation = lower(nnet_source(nnet), lowering_request(nnet, request))
    if options.check:
        check_computation(computation)
    if options.optimize:
        computation = optimize(computation, disabled=options.disabled_passes, check_between=options.check)
    computation.fingerprint = nnet.fingerprint()
    return computation
