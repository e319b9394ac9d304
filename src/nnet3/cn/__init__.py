"""Computational networks: directed graphs of matrix operations; see docs/computational_networks.md."""

import lazy_loader

from nnet3.cn import operators, registry

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
