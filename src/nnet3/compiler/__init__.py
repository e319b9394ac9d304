"""From a network and a request to a computation: the front-end of nnet3 networks."""

from nnet3.compiler.compile import build_graph, compile, compile_family, generate, schedule
from nnet3.compiler.nnet_source import NnetSource, nnet_source
from nnet3.compiler.request import ComputationRequest, IoSpecification, StateRequest, lowering_request

__all__ = [
    "ComputationRequest",
    "IoSpecification",
    "NnetSource",
    "StateRequest",
    "build_graph",
    "compile",
    "compile_family",
    "generate",
    "lowering_request",
    "nnet_source",
    "schedule",
]
