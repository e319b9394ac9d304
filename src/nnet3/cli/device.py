"""Chooses the device of a computation by `--device`, and by `--use-gpu` as Kaldi means it."""

from __future__ import annotations

import torch

from nnet3.cli.verb import take_use_gpu
from nnet3.errors import Nnet3Error


def choose_device(device: str | None, use_gpu: str | None) -> str:
    """The name of the device.

    `device` prevails. `use_gpu`: "yes" and "wait" must have a GPU, "optional", the default, takes a GPU if there is
    any. Raises Nnet3Error for a missing device.
    """
    if device is not None:
        return _checked(device)
    if use_gpu == "no":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if use_gpu in ("yes", "wait"):
        raise Nnet3Error(f"--use-gpu={use_gpu}: PyTorch finds no CUDA device here; say --use-gpu=no or optional")
    return "cpu"


def given_device() -> str:
    """The name of the device that `--use-gpu` means, for a verb that has no `--device`."""
    return choose_device(None, take_use_gpu())


def _checked(name: str) -> str:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise Nnet3Error(f"--device={name} is not a device such as cpu, cuda or cuda:1") from None
    count = torch.cuda.device_count() if device.type == "cuda" else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        raise Nnet3Error(f"--device={name}: PyTorch finds {count or 'no'} CUDA devices here")
    if device.type not in ("cpu", "cuda"):
        raise Nnet3Error(f"--device={name}: networks run on cpu or cuda")
    return name
