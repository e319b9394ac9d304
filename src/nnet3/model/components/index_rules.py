"""IndexRules: the input rows that output rows need, by their indexes.

Components that are not simple override what is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch

from nnet3.base.index import indexes_at
from nnet3.errors import ComponentError
from nnet3.model.components.index_arrays import IndexArrays, load_fields

_SOME_TIMES = (0, 1, 2, 3, 7, -3, 64, 1001)  # round which what depends on t shows


class IndexRules:
    """The index rules of a component with output row i for input row i. Tables of indexes (n, t, x): (rows, 3)."""

    type_name: ClassVar[str]

    #: True if output index (n, t, x) needs exactly input index (n, t, x), in the same row order.
    identity_indexes: bool = True

    @property
    def rules_period(self) -> int | None:
        """The period, in frames, of the index rules; None if not known."""
        return 1 if self.identity_indexes else None

    #: True if `forward` must be given the result of `precompute_indexes`.
    needs_indexes: bool = False
    #: The type that `load_indexes` makes.
    indexes_type: ClassVar[Callable[..., Any]] = SimpleNamespace

    @property
    def indexes_go_on(self) -> bool:
        """True if repeating periods of rows add equal or equally growing parts to the arrays of `precompute_indexes`.

        The arrays then ignore the number of rows, and contain absolute times unchanged if at all.
        """
        return False

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        """Returns the input indexes that outputs (rows, 3) may use, (rows, slots, 3); no slots if there is no input."""
        return outputs[:, np.newaxis, :]

    def moves(self) -> np.ndarray:
        """Returns how far from themselves outputs at some times look, (times, slots, 3).

        Where that depends on t, times differ.
        """
        outputs = indexes_at(_SOME_TIMES)
        return self.wanted_inputs(outputs).astype(np.int64) - outputs[:, np.newaxis]

    def computable(self, outputs: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns masks of the computable outputs, (rows,), and of the inputs used by each, (rows, slots).

        `available`: mask of the wanted inputs that exist, (rows, slots).
        """
        return np.asarray(available.all(axis=1)), available

    def reorder_indexes(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns input and output indexes, (n, 3) each, in the component's orders; padding rows have t = NO_TIME.

        Called only if REORDERS_INDEXES is set. If `precompute_indexes` gives arrays `input_padding` or
        `output_padding`, the numbers of these rows, all its other arrays must ignore which rows are padding.
        """
        return inputs, outputs

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, *, need_backprop: bool) -> IndexArrays | None:
        """Returns the facts about rows needed by forward and backward, from the rows' index tables after reordering.

        None if nothing is needed. Else it is data that can be saved: NumPy arrays of integers or truth values by name,
        numbers as arrays without axes. Called only if `needs_indexes` is set.
        """
        raise ComponentError(f"{self.type_name} has needs_indexes, but defines no precompute_indexes")

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device | str) -> Any:
        """Returns what forward and backward get as `indexes`, made of the arrays of `precompute_indexes`.

        Unless overridden, an `indexes_type` whose fields are named as the arrays are: tensors on the device (integers
        as int64), and plain numbers for arrays without axes.
        """
        return self.indexes_type(**load_fields(arrays, device))
