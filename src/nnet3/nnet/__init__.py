"""Networks: descriptors, nodes, Nnet, config and model files, context."""

from nnet3.nnet.descriptor import Descriptor
from nnet3.nnet.network import Nnet
from nnet3.nnet.normalize import parse_descriptor

__all__ = ["Descriptor", "Nnet", "parse_descriptor"]
