"""lower: from a graph and a request to a program, whoever the front-end is."""

from __future__ import annotations

from nnet3.ir.computation import NnetComputation
from nnet3.ir.objects import many_objects
from nnet3.lowering.build_graph import build_graph
from nnet3.lowering.generate import generate
from nnet3.lowering.scheduler import schedule
from nnet3.lowering.source import GraphSource, LoweringRequest


@many_objects()
def lower(source: GraphSource, request: LoweringRequest) -> NnetComputation:
    """The program that computes what the request asks for, not yet optimized.

    Raises RequestError for a request that cannot be, NotComputableError for outputs out of reach.
    """
    graph = build_graph(source, request)
    return generate(source, request, schedule(source, graph))
