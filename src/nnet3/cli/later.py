"""What needs PyTorch, imported at a verb's first use: help and wrong usage need none."""

from nnet3.cli.quick_imports import import_quickly
from nnet3.stubs import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__, import_quickly)
