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
from nnet3.errors import ArgumentError, RequestError, check_kind
from nnet3.index import T
from nnet3.lowering import ComputationGraph, Schedule, lower
from nnet3.lowering import build_graph as lowered_graph
from nnet3.lowering import generate as generate_program
from nnet3.lowering import schedule as schedule_graph
from nnet3.nnet import Nnet

_INT32 = np.iinfo(np.int32)
#: Kaldi's defaults of the options of derivative times: no limit.
NO_DERIV_TIMES = {
    "min_deriv_time": int(_INT32.min),
    "max_deriv_time": int(_INT32.max),
    "max_deriv_time_relative": int(_INT32.max),
}


@dataclass(frozen=True)
class CompileOptions:
    """`optimize`: run the passes, except those named in `disabled_passes`; `check`: run the checker between them.

    Derivatives at times t before `min_deriv_time` or after `max_deriv_time` count as zero, at every node; None: no
    limit, as with Kaldi's defaults, the least and the greatest int32. `max_deriv_time_relative` counts from the last t
    of all requested outputs, and takes the place of `max_deriv_time`.
    """

    optimize: bool = True
    disabled_passes: frozenset[str] = field(default_factory=frozenset)
    check: bool = False
    min_deriv_time: int | None = None
    max_deriv_time: int | None = None
    max_deriv_time_relative: int | None = None

    def __post_init__(self) -> None:
        for flag in ("optimize", "check"):
            check_kind(getattr(self, flag), (bool, np.bool_), flag, "True or False")
        names = self.disabled_passes
        if isinstance(names, str | bytes) or not (
            isinstance(names, Collection) and all(isinstance(name, str) for name in names)
        ):
            raise ArgumentError(f"disabled_passes must be a set of names of passes, got {names!r}")
        object.__setattr__(self, "disabled_passes", frozenset(names))
        for name, no_limit in NO_DERIV_TIMES.items():
            value = getattr(self, name)
            check_kind(value, (int, np.integer, type(None)), name, "a whole number or None")
            if isinstance(value, bool):
                raise ArgumentError(f"{name} must be a whole number or None, got {value}")
            object.__setattr__(self, name, None if value is None or value == no_limit else int(value))
        first, last = self.min_deriv_time, self.max_deriv_time
        if first is not None and last is not None and self.max_deriv_time_relative is None and first > last:
            raise ArgumentError(f"min_deriv_time is {first}, after max_deriv_time, {last}")

    def deriv_times(self, request: ComputationRequest) -> tuple[int, int] | None:
        """The first and the last t with derivatives; None for no limits. Raises RequestError if there is none."""
        first, last = self.min_deriv_time, self.max_deriv_time
        if self.max_deriv_time_relative is not None:
            times = [io.indexes[:, T].max() for io in request.outputs if len(io.indexes)]
            last = int(max(times, default=0)) + self.max_deriv_time_relative
        if first is None and last is None:
            return None
        first = int(_INT32.min) if first is None else first
        last = int(_INT32.max) if last is None else last
        if first > last:
            raise RequestError(
                f"min_deriv_time is {first}, but max_deriv_time_relative = {self.max_deriv_time_relative} ends "
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
    deriv_times = checked_options(options).deriv_times(request)
    return generate_program(nnet_source(nnet), lowering_request(nnet, request, deriv_times), steps)


def compile(nnet: Nnet, request: ComputationRequest, options: CompileOptions | None = None) -> NnetComputation:
    """The program that computes what the request asks for.

    It holds for the network as it is now: after a change of its structure, or of a component's test mode, compile
    again (a `ComputationCache` does so by itself); to run it then is an error that says what has changed.

    Raises RequestError or NotComputableError.
    """
    options = checked_options(options)
    check_request(nnet, request)
    computation = lower(nnet_source(nnet), lowering_request(nnet, request, options.deriv_times(request)))
    if options.check:
        check_computation(computation)
    if options.optimize:
        computation = optimize(computation, disabled=options.disabled_passes, check_between=options.check)
    computation.fingerprint = nnet.fingerprint()
    return computation
