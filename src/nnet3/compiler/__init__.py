"""From a network and a request to a computation: the front-end of nnet3 networks."""

from nnet3.compiler.cache import ComputationCache, default_cache
from nnet3.compiler.compile import build_graph, compile, generate, schedule
from nnet3.compiler.nnet_source import NnetSource, lowering_request, nnet_source
from nnet3.compiler.request import ComputationRequest, IoSpecification
from nnet3.options import CompileOptions

__all__ = [
    "CompileOptions",
    "ComputationCache",
    "ComputationRequest",
    "IoSpecification",
    "NnetSource",
    "build_graph",
    "compile",
    "default_cache",
    "generate",
    "lowering_request",
    "nnet_source",
    "schedule",
]
