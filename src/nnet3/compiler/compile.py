"""compile: all stages from a network and a request to an optimized, checked computation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nnet3.compiler.explain import check_outputs_computable
from nnet3.compiler.generate import generate
from nnet3.compiler.graph import ComputationGraph
from nnet3.compiler.graph_builder import GraphBuilder
from nnet3.compiler.organize import schedule
from nnet3.compiler.request import ComputationRequest
from nnet3.computation.checker import check_computation
from nnet3.computation.computation import NnetComputation
from nnet3.computation.passes.pipeline import optimize

if TYPE_CHECKING:
    from nnet3.nnet import Nnet


@dataclass(frozen=True)
class CompileOptions:
    """`optimize`: run the passes, except those named in `disabled_passes`; `check`: run the checker between them."""

    optimize: bool = True
    disabled_passes: frozenset[str] = field(default_factory=frozenset)
    check: bool = False


def build_graph(nnet: Nnet, request: ComputationRequest) -> ComputationGraph:
    """Which cindexes the request involves and what each uses.

    Raises RequestError for a request that does not fit the network, NotComputableError for outputs out of reach.
    """
    request.check(nnet)
    builder = GraphBuilder(nnet, request)
    builder.compute()
    check_outputs_computable(builder)
    return builder.prune()


def compile(nnet: Nnet, request: ComputationRequest, options: CompileOptions | None = None) -> NnetComputation:
    """The program that computes what the request asks for.

    It holds for the network as it is now: after a change of its structure, or of a component's test mode, compile
    again. Raises RequestError or NotComputableError.
    """
    options = options or CompileOptions()
    graph = build_graph(nnet, request)
    computation = generate(nnet, request, schedule(nnet, request, graph))
    if options.check:
        check_computation(computation)
    if options.optimize:
        computation = optimize(computation, disabled=options.disabled_passes, check_between=options.check)
    return computation
