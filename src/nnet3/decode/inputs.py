"""The inputs of an utterance, checked: features, and one ivector or online ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nnet3.decode.given import check_ivectors_wanted, checked_matrix
from nnet3.errors import ExecutionError, NetworkError
from nnet3.ir.matrices import Matrix
from nnet3.nnet import Nnet


@dataclass(frozen=True)
class UtteranceInputs:
    """Features (frames, dim), with an ivector (dim,) or online ivectors (rows, dim), on the device of the network."""

    features: Tensor
    ivector: Tensor | None = None
    online_ivectors: Tensor | None = None


def check_simple(nnet: Nnet, where: str = "over utterances") -> None:
    """Raise NetworkError for a network that cannot be run there."""
    if not nnet.is_simple:
        raise NetworkError(
            f"only a simple network can be run {where}: an output 'output', an input 'input', at most an "
            f"input 'ivector' besides; this one has inputs {nnet.input_names} and outputs {nnet.output_names}"
        )


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
