"""Whole training runs: a settings file, schedules, checkpoints, logs, several processes (docs/training.md)."""

import lazy_loader

# Imported when first asked for: settings are read, and refused, before PyTorch is there.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
