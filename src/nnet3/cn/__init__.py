"""Computational networks: directed graphs of matrix operations; see docs/computational_networks.md."""

from nnet3.cn import operation_types as registry, operators
from nnet3.stubs import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
