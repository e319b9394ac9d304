"""Kaldi nnet3 neural networks on PyTorch: read, compile, run, train and convert them without building Kaldi."""

from nnet3 import components
from nnet3.compiler import CompileOptions, ComputationCache, ComputationRequest, IoSpecification, compile
from nnet3.compute import NnetComputer
from nnet3.nnet import AcousticModel, Nnet, TransitionModel, load, load_nnet, load_transition_model

__all__ = [
    "AcousticModel",
    "CompileOptions",
    "ComputationCache",
    "ComputationRequest",
    "IoSpecification",
    "Nnet",
    "NnetComputer",
    "TransitionModel",
    "compile",
    "components",
    "load",
    "load_nnet",
    "load_transition_model",
]
