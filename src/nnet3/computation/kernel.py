"""The one protocol through which the intermediate form and the executor see what computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor


class Kernel(Protocol):
    """A forward and a backward function on matrices, with state of its own (parameters, statistics).

    The functions overwrite what they fill. A kernel without inputs is given an empty sequence.
    """

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device) -> Any:
        """The object that the other functions get as `indexes`, made of what was precomputed: arrays by name.

        Called only for commands that have precomputed arrays.
        """

    def run_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> Any:
        """Fill `output`; the result is the memo that run_stats and run_backward are given."""

    def run_stats(self, inputs: Sequence[Tensor], output: Tensor, memo: Any) -> None:
        """Add this forward pass to the kernel's statistics."""

    def run_backward(
        self,
        inputs: Sequence[Tensor],
        output: Tensor,
        output_deriv: Tensor,
        memo: Any,
        to_update: Any,
        input_derivs: Sequence[Tensor | None],
        indexes: Any,
    ) -> None:
        """Fill each input derivative that is not None; update the kernel `to_update` unless it is None."""


@dataclass(frozen=True)
class KernelInfo:
    """What passes may know of a kernel: promises, not types."""

    name: str
    updatable: bool = False
    #: The update depends only on the rows it is given, all at once or in pieces: simple, without memo.
    rows_can_be_merged: bool = False
    backprop_needs_input: bool = False
    backprop_needs_output: bool = False
    propagate_in_place: bool = False
    backprop_in_place: bool = False
    uses_memo: bool = False
    stores_stats: bool = False
