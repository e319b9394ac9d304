"""Edits of networks: edit directives, collapsing for test time, averaging, low-rank factors."""

from nnet3.stubs import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
