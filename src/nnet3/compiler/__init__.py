"""Makes a computation of a network and a request: the front-end of nnet3 networks."""

from nnet3.compiler.compile import (
    build_graph as build_graph,
    compile as compile,
    compile_family as compile_family,
    generate as generate,
    schedule as schedule,
)
from nnet3.compiler.nnet_source import NnetSource as NnetSource, nnet_source as nnet_source
from nnet3.compiler.request import (
    ComputationRequest as ComputationRequest,
    IoSpecification as IoSpecification,
    StateRequest as StateRequest,
    lowering_request as lowering_request,
)
