"""Left and right context of a simple network: frames of input that one frame of output needs on either side.

Kaldi finds them by trial: input is supposed to be given for a window of frames, for each shift s of it up to the
modulus M, and left and right context are what is lost of the window at its ends, in the worst case. For nearly all
networks what can be computed from a window is an interval of times, and then there is nothing to try.
"""

from __future__ import annotations

from nnet3.errors import NetworkError
from nnet3.structure.context_intervals import NotIntervalsError, context_by_intervals
from nnet3.structure.context_trials import context_by_trials
from nnet3.structure.parts import NetworkParts
from nnet3.structure.recurrences import never_computable, startless_warnings

_MAX_MODULUS = 1000  # there is a trial for each time within it


def compute_context(parts: NetworkParts) -> tuple[int, int]:
    """(left, right) context. Raises NetworkError if no output can be computed, whatever input is given."""
    if parts.modulus > _MAX_MODULUS:
        raise NetworkError(
            f"the structure of the network repeats after {parts.modulus} frames only: the context cannot be found "
            f"beyond {_MAX_MODULUS}"
        )
    try:
        found = context_by_intervals(parts)
    except NotIntervalsError:
        hopeless = parts.node_number["output"] in never_computable(parts)
        found = None if hopeless else context_by_trials(parts)
    if found is None:
        reasons = "".join(f"\n{reason}" for reason in startless_warnings(parts))
        raise NetworkError(f"no output is computable, however much input is given: there is no context{reasons}")
    return found
