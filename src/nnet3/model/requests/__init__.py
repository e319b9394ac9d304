"""Makes a computation of a network and a request: the front-end of nnet3 networks."""

from nnet3.model.requests.compile import build_graph, compile, compile_family, generate, schedule
from nnet3.model.requests.io_specification import IoSpecification
from nnet3.model.requests.nnet_source import NnetSource, nnet_source
from nnet3.model.requests.request import ComputationRequest, StateRequest, lowering_request
