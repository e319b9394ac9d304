"""What networks are made of: descriptors, nodes, what they mean, context."""

from nnet3.structure.descriptor import Descriptor
from nnet3.structure.normalize import parse_descriptor

__all__ = ["Descriptor", "parse_descriptor"]
