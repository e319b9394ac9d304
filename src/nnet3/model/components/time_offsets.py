"""ReadsTimeOffsets: the index rules of components that look at several times."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from nnet3.model.components.base import Component, Properties
from nnet3.model.components.index_arrays import IndexArrays
from nnet3.model.components.time_blocks import TimeBlocks, order_rows, time_blocks


class ReadsTimeOffsets(Component):
    """A component whose output at (n, t, x) depends on the inputs at (n, t + o, x), for o in `time_offsets`."""

    properties = Properties.REORDERS_INDEXES
    identity_indexes = False
    rules_period = 1
    needs_indexes = True
    indexes_go_on = True

    time_offsets: tuple[int, ...]

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        wanted = np.repeat(outputs[:, np.newaxis], len(self.time_offsets), axis=1)
        wanted[:, :, 1] += np.array(self.time_offsets, np.int32)
        return wanted

    def reorder_indexes(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return order_rows(inputs, outputs, self.time_offsets)

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, *, need_backprop: bool) -> IndexArrays:
        return time_blocks(inputs, outputs, self.time_offsets, need_backprop=need_backprop)

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device | str) -> TimeBlocks:
        return TimeBlocks.load(arrays, device)
