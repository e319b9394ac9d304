"""What Vosk sets for the whole process: how much is said, and whether batches run on a GPU."""

from __future__ import annotations

import logging
from numbers import Real

import torch

from nnet3.errors import ArgumentError

_LOG = logging.getLogger("nnet3")
_device = {"batches": "cpu"}


def SetLogLevel(level: int) -> None:
    """Says less below 0, as in Vosk: errors only. Raises ArgumentError for what is no number."""
    if not isinstance(level, Real):
        raise ArgumentError(f"a level of the log is a number, got {level!r:.80}")
    _LOG.setLevel(logging.ERROR if level < 0 else logging.DEBUG if level > 0 else logging.WARNING)


def GpuInit() -> None:
    """Lets models for batches, loaded from now on, run on the GPU, if PyTorch has any."""
    if torch.cuda.is_available():
        _device["batches"] = "cuda"


def GpuThreadInit() -> None:
    """Does nothing: PyTorch needs no preparation of threads."""


def device_of_batches() -> str:
    """Returns the device for models of batches."""
    return _device["batches"]
