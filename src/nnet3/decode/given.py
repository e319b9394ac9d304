"""Checks of the matrices that users give."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.errors import ExecutionError
from nnet3.ir.matrices import Matrix, as_tensor
from nnet3.nnet import Nnet


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
        raise ExecutionError(f"the {what} must be {expected}, got {tuple(matrix.shape)}")
    bad = ~torch.isfinite(matrix)
    if bad.any():
        row = int(bad.reshape(len(matrix), -1).any(dim=1).int().argmax()) if dimensions == 2 else 0
        raise ExecutionError(f"the {what} have a NaN or an infinity, first in row {row}")
    return matrix


def check_ivectors_wanted(nnet: Nnet, given: bool) -> None:
    """Raise ExecutionError unless ivectors are given to a network that has an input for them, and to no other."""
    wanted = "ivector" in nnet.input_names
    if wanted != given:
        have, want = ("an", "none is given") if wanted else ("no", "one is given")
        raise ExecutionError(f"the network has {have} input 'ivector', but {want}")
