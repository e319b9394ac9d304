"""Running a computation: a plan of its memory, commands bound to tensors and kernels once, NnetComputer."""

from nnet3.compute.computer import NnetComputer
from nnet3.compute.link import LinkedComputation, link

__all__ = ["LinkedComputation", "NnetComputer", "link"]
