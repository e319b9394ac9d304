"""Checks the arguments of a forward: one clear message for everything that does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.base.text import did_you_mean
from nnet3.errors import ArgumentError, NetworkError, check_kind
from nnet3.model.nnet import Nnet
from nnet3.model.nnet.simple import what_is_simple


def checked_network(network: Any) -> Nnet:
    """Returns the network, if it can be run over utterances. Raises ArgumentError or NetworkError."""
    check_kind(network, Nnet, "what a TorchModule is made of", "a network or an acoustic model (nnet3.load gives one)")
    if not network.is_simple:
        raise NetworkError(f"a TorchModule is made of a simple network: {what_is_simple(network.parts)}")
    for name, component in network.components.items():
        if component.inference_only:
            raise NetworkError(f"a TorchModule can learn, but component '{name}' cannot: {component.inference_only}")
    result: Nnet = network
    return result


def checked_names(network: Nnet, outputs: Any) -> list[str]:
    """Returns names of output nodes, each once; all if None is given."""
    known = network.output_names
    if outputs is None:
        return known
    if not isinstance(outputs, list | tuple) or not outputs:
        raise ArgumentError(f"outputs must be a list of names of output nodes, such as ['output'], got {outputs!r}")
    for name in outputs:
        if name not in known:
            hint = did_you_mean(name, known) if isinstance(name, str) else ""
            raise ArgumentError(f"the network has no output {name!r}; {hint or 'it has ' + ', '.join(known)}")
    return list(dict.fromkeys(outputs))


def checked_factor(factor: Any) -> int:
    if isinstance(factor, bool) or not isinstance(factor, int | np.integer) or factor < 1:
        raise ArgumentError(f"frame_subsampling_factor must be an integer >= 1, got {factor!r}")
    return int(factor)


def check_not_traced(features: Any) -> None:
    """Raises NetworkError where PyTorch runs the module without numbers, to write down what it does."""
    if torch.jit._trace.is_tracing() or isinstance(features, torch._subclasses.FakeTensor | torch.fx.Proxy):
        raise NetworkError(
            "a TorchModule cannot be traced or exported (torch.export, torch.jit, ONNX): what it does is a program of "
            "its own compiler. Save the network (module.nnet.save) and run it with nnet3 or Kaldi, or "
            "write it as ONNX by nnet3.export_onnx(module.nnet, path)"
        )


def checked_features(features: Any, dim: int, like: Tensor | None) -> Tensor:
    """Returns features (batch, frames, dim) in the dtype and on the device of the parameters."""
    tensor = _checked(features, "features", like)
    if tensor.ndim != 3 or tensor.shape[2] != dim or 0 in tensor.shape:
        hint = ": one sequence is a batch of one, features[None]" if tensor.shape[1:] == (dim,) else ""
        raise ArgumentError(f"features must be (batch, frames, {dim}), got {tuple(tensor.shape)}{hint}")
    return tensor


def checked_ivectors(ivectors: Any, features: Tensor, network: Nnet, like: Tensor | None) -> Tensor | None:
    """Returns one ivector for each sequence, (batch, dim), where the network takes some."""
    if "ivector" not in network.input_names:
        if ivectors is not None:
            raise ArgumentError("ivectors are given, but the network has no input 'ivector'")
        return None
    dim = network.node_dim("ivector")
    if ivectors is None:
        raise ArgumentError(f"the network has an input 'ivector': give ivectors of shape (batch, {dim})")
    tensor = _checked(ivectors, "ivectors", features if like is None else like)
    expected = features.shape[0], dim
    if tuple(tensor.shape) != expected:
        raise ArgumentError(
            f"ivectors must be (batch, dim) {expected}, one for each sequence, got {tuple(tensor.shape)}"
        )
    return tensor


def _checked(value: Any, what: str, like: Tensor | None) -> Tensor:
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_nested:
        raise ArgumentError(f"{what} must be a dense tensor, got {getattr(value, 'layout', type(value).__name__)}")
    if not value.is_floating_point():
        raise ArgumentError(f"{what} must be floats, got {value.dtype}")
    if like is None:
        return value
    if value.device != like.device:
        raise ArgumentError(
            f"{what} are on {value.device}, but the parameters on {like.device}: move one of them with .to(...)"
        )
    if value.dtype == like.dtype:
        return value
    if not torch.is_autocast_enabled(like.device.type):
        raise ArgumentError(
            f"{what} are {value.dtype}, but the parameters {like.dtype}: convert one of them with .to(...)"
        )
    return value.to(like.dtype)
