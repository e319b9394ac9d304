"""Left and right context of a simple network: frames of input that one frame of output needs on either side."""

from __future__ import annotations

from nnet3.errors import NetworkError
from nnet3.nnet.context_trials import context_by_trials
from nnet3.nnet.parts import NetworkParts

_MAX_MODULUS = 1000  # there is a trial for each time within it


def compute_context(parts: NetworkParts) -> tuple[int, int]:
    """(left, right) context. Raises NetworkError if no window that is tried makes an output computable."""
    if parts.modulus > _MAX_MODULUS:
        raise NetworkError(
            f"the structure of the network repeats after {parts.modulus} frames only: the context cannot be found "
            f"beyond {_MAX_MODULUS}"
        )
    return context_by_trials(parts)
