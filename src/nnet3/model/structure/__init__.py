"""The parts of networks: descriptors, nodes and their rules, configs, context."""

from nnet3.model.structure.descriptor import Descriptor
from nnet3.model.structure.normalize import parse_descriptor
