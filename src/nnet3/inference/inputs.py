"""The inputs of an utterance, checked: features, and one ivector or online ivectors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nnet3.engine.ir.matrices import Matrix, as_tensor, is_finite
from nnet3.errors import ExecutionError, NetworkError
from nnet3.model.nnet import Nnet
from nnet3.model.nnet.simple import what_is_simple


def checked_matrix(
    nnet: Nnet, what: str, values: Matrix, node: str, dimensions: int, device: str | torch.device
) -> Tensor:
    """Returns the rows, or with one dimension the vector, that an input node is given, on the device.

    Raises ExecutionError for no rows, another shape, a NaN or an infinity; `what` names the values.
    """
    matrix = as_tensor(values, f"the {what}", device=device)
    dim = nnet.node_dim(node)
    if node == "input" and matrix.ndim == 2 and len(matrix) == 0:
        raise ExecutionError("the utterance has no frames")
    if matrix.ndim != dimensions or matrix.shape[-1] != dim or len(matrix) == 0:
        expected = f"(frames, {dim})" if node == "input" else f"({dim},)" if dimensions == 1 else f"(rows, {dim})"
        hint = ": give one utterance at a time" if matrix.ndim == 3 and dimensions == 2 else ""
        hint = ": transpose them" if matrix.ndim == dimensions == 2 and len(matrix) == dim else hint
        raise ExecutionError(f"the {what} must be {expected}, got {tuple(matrix.shape)}{hint}")
    if not is_finite(matrix):
        bad = ~matrix.isfinite()
        row = int(bad.reshape(len(matrix), -1).any(dim=1).int().argmax()) if dimensions == 2 else 0
        raise ExecutionError(f"the {what} have a NaN or an infinity, first in row {row}")
    return matrix


def check_ivectors_wanted(nnet: Nnet, given: bool) -> None:
    """Raises ExecutionError unless ivectors are given to a network with an input for them, and to no other."""
    wanted = "ivector" in nnet.input_names
    if wanted != given:
        have, want = ("an", "none is given: give --ivectors or --online-ivectors") if wanted else ("no", "one is given")
        raise ExecutionError(f"the network has {have} input 'ivector', but {want}")


@dataclass(frozen=True)
class UtteranceInputs:
    """Features (frames, dim), with an ivector (dim,) or online ivectors (rows, dim), on the device of the network."""

    features: Tensor
    ivector: Tensor | None = None
    online_ivectors: Tensor | None = None


def check_simple(nnet: Nnet, where: str = "over utterances") -> None:
    """Raises NetworkError for a network that cannot be run in the way named by `where`."""
    if not nnet.is_simple:
        raise NetworkError(f"only a simple network can be run {where}: {what_is_simple(nnet.parts)}")


def checked_inputs(
    nnet: Nnet, device: str | torch.device, features: Matrix, ivector: Matrix | None, online_ivectors: Matrix | None
) -> UtteranceInputs:
    """Returns the inputs as tensors on the device; matrices are tensors or arrays of any float or integer dtype.

    Raises ExecutionError for sizes that do not fit the network, for an utterance without frames, for ivectors that are
    missing or too many, for a NaN or an infinity.
    """
    frames = checked_matrix(nnet, "features", features, "input", 2, device)
    if ivector is not None and online_ivectors is not None:
        raise ExecutionError("give one ivector or online ivectors, not both")
    check_ivectors_wanted(nnet, ivector is not None or online_ivectors is not None)
    if ivector is not None:
        return UtteranceInputs(frames, checked_matrix(nnet, "ivectors", ivector, "ivector", 1, device))
    if online_ivectors is not None:
        return UtteranceInputs(frames, None, checked_matrix(nnet, "ivectors", online_ivectors, "ivector", 2, device))
    return UtteranceInputs(frames)
