"""Chooses the device of a computation by `--device`, and by `--use-gpu` as Kaldi means it."""

from __future__ import annotations

import torch

from nnet3.cli.messages import say
from nnet3.cli.verb import take_use_gpu
from nnet3.errors import Nnet3Error


def choose_device(device: str | None, use_gpu: str | None) -> str:
    """Returns the name of the device.

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
    """Returns the name of the device that `--use-gpu` means, for a verb that has no `--device`."""
    return choose_device(None, take_use_gpu())


def has_cuda() -> bool:
    """Returns true if PyTorch was built for GPUs of CUDA, whether there is one here or not."""
    return torch.version.cuda is not None


def try_gpu() -> int:
    """Computes a little on a GPU, and says how it went.

    Returns 0, 1 where PyTorch was not built for GPUs, or 255 where there is no GPU or it fails, as in Kaldi.
    """
    if not has_cuda():
        say(f"PyTorch {torch.__version__} was not built for GPUs: install one with CUDA")
        return 1
    try:
        result = torch.randn(100, 100, device="cuda").softmax(dim=1).sum()
        say(f"{torch.cuda.get_device_name()} computes" if result.isfinite() else "the GPU computes wrongly")
        return 0 if result.isfinite() else 255
    except (RuntimeError, AssertionError) as error:
        say(f"no GPU can be used: {str(error).splitlines()[0]}")
        return 255


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
