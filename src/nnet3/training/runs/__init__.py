"""Whole training runs: a settings file, schedules, checkpoints, logs, several processes (docs/training.md)."""

from nnet3.stubs import attach_stub

# Imported when first asked for: settings are read, and refused, before PyTorch is there.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
