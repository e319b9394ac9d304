"""Computational networks as ONNX files; imported at the first use, because ONNX needs packages of its own."""

from nnet3.stubs import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
