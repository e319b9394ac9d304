"""Numbers that users give in lists, arrays or tensors, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.errors import ArgumentError, shown


def whole_numbers(values: Any, refusal: str) -> npt.NDArray[np.int64]:
    """Returns the integers of a list, a nested list, an array or a tensor as an array of the same shape.

    Raises ArgumentError, which is `refusal` and what was given, for anything else. What is empty has no kind.
    """
    return _array(values, "iu", refusal).astype(np.int64)


def real_numbers(values: Any, refusal: str) -> npt.NDArray[np.float64]:
    """Returns real numbers, floats or integers, as `whole_numbers` does integers."""
    return _array(values, "fiu", refusal).astype(np.float64)


def _array(values: Any, kinds: str, refusal: str) -> npt.NDArray[Any]:
    try:
        found = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    except (TypeError, ValueError, RuntimeError):  # lists of several lengths, tensors without numbers
        found = np.array(None)
    if found.size and found.dtype.kind not in kinds:
        raise ArgumentError(f"{refusal}, got {shown(values)}")
    return found
