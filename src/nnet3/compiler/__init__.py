"""From a network and a request to a computation: graph, schedule, commands."""

from nnet3.compiler.compile import CompileOptions, build_graph, compile
from nnet3.compiler.generate import generate
from nnet3.compiler.graph import ComputationGraph
from nnet3.compiler.graph_builder import Computable, GraphBuilder
from nnet3.compiler.organize import Schedule, schedule
from nnet3.compiler.request import ComputationRequest, IoSpecification

__all__ = [
    "CompileOptions",
    "Computable",
    "ComputationGraph",
    "ComputationRequest",
    "GraphBuilder",
    "IoSpecification",
    "Schedule",
    "build_graph",
    "compile",
    "generate",
    "schedule",
]
