"""Kaldi nnet3 neural networks on PyTorch: read, compile, run, train and convert them without building Kaldi."""

from nnet3.stubs import attach_stub

# The public names stand in __init__.pyi. Each is imported when first asked for: what needs no tensors, such as a
# command's help, need not wait for PyTorch.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
