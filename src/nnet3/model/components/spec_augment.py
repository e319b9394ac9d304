"""SpecAugmentTimeMaskComponent: zeroes stretches of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.base.text import ConfigLine
from nnet3.base.text.values import at_least
from nnet3.model.components.base import Properties
from nnet3.model.components.component_types import register
from nnet3.model.components.dropout import RandomComponent
from nnet3.model.components.field_table import Field
from nnet3.model.components.index_arrays import IndexArrays, load_fields
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.value_kinds import FLAG, PROPORTION, SIZE, IntegerKind, Values


@dataclass(frozen=True)
class SpecAugmentTimeMaskIndexes:
    """The sequence number of each row, and the row's position by time in the sequence, (rows,) each."""

    sequence_of_row: Tensor
    place_of_row: Tensor
    num_sequences: int
    longest_sequence: int


def _most_frames_kept(max_frames: int, proportion: float) -> int:
    """Returns the length of the longest segment without zeros; below 1 the settings contradict each other."""
    return max_frames if proportion == 0.0 else int(max_frames * (1.0 - proportion) / proportion)


def _fault_of_frames(_: Any, values: Values) -> str:
    """Checks the two settings when the last of them is known."""
    max_frames, proportion = values.get("time_mask_max_frames"), values["zeroed_proportion"]
    if max_frames is None or _most_frames_kept(max_frames, proportion) >= 1:
        return ""
    return f": masks of up to {max_frames} frames and a proportion of {proportion:g} leave not one frame between masks"


@register
class SpecAugmentTimeMaskComponent(RandomComponent):
    """y = x with segments of up to time_mask_max_frames rows zeroed, about zeroed_proportion of each sequence."""

    properties = Properties.IN_PLACE | Properties.USES_MEMO | Properties.RANDOM
    indexes_go_on = True

    fields = (
        Field("dim", SIZE),
        Field("zeroed_proportion", PROPORTION, default=0.25, check=_fault_of_frames),
        Field("time_mask_max_frames", IntegerKind(at_least(2)), default=10, check=_fault_of_frames),
        Field("test_mode", FLAG, None, optional=True, omitted=False),
    )
    heading = ("dim",)
    shown = ("zeroed_proportion", "time_mask_max_frames")

    def __init__(
        self, dim: int, zeroed_proportion: float = 0.25, time_mask_max_frames: int = 10, test_mode: bool = False
    ):
        super().__init__(test_mode)
        self.input_dim = self.output_dim = dim
        self.zeroed_proportion = zeroed_proportion
        self.time_mask_max_frames = time_mask_max_frames

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        return {"time_mask_max_frames": line.integer("time-mask-max-frames", 10, minimum=2)}

    @property
    def needs_indexes(self) -> bool:  # type: ignore[override]
        return not self.test_mode

    @property
    def most_frames_kept(self) -> int:
        return _most_frames_kept(self.time_mask_max_frames, self.zeroed_proportion)

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, *, need_backprop: bool) -> IndexArrays:
        n, t, x = outputs[:, 0], outputs[:, 1], outputs[:, 2]
        _, sequence_of_row, lengths = np.unique(n, return_inverse=True, return_counts=True)
        sequence_of_row = sequence_of_row.reshape(-1)
        order = np.lexsort((x, t, sequence_of_row))
        place_of_row = np.empty(len(order), dtype=np.int64)
        place_of_row[order] = np.arange(len(order)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return {
            "sequence_of_row": sequence_of_row,
            "place_of_row": place_of_row,
            "num_sequences": np.array(len(lengths)),
            "longest_sequence": np.array(lengths.max(initial=0)),
        }

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device | str) -> SpecAugmentTimeMaskIndexes:
        """Loads the indexes to the CPU, where masks are drawn, for every device."""
        return SpecAugmentTimeMaskIndexes(**load_fields(arrays, "cpu"))

    def forward(self, x: Tensor, y: Tensor, indexes: SpecAugmentTimeMaskIndexes | None = None) -> Tensor | None:
        """Returns the factor of each row, (rows, 1), as the memo; None for the identity."""
        if self.test_mode or self.zeroed_proportion == 0.0:
            _multiply(x, None, y)
            return None
        assert indexes is not None, "this type has needs_indexes"
        mask = self._mask(indexes).to(x)
        _multiply(x, mask, y)
        return mask

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        _multiply(y_deriv, memo, x_deriv)

    def _mask(self, indexes: SpecAugmentTimeMaskIndexes) -> Tensor:
        """Draws the mask of the rows that are kept, (rows, 1).

        Kept and zeroed segments alternate. As none is empty, as many of them as the longest sequence has rows
        are enough for all sequences: their ends are drawn for all sequences at once.
        """
        shape = (indexes.num_sequences, indexes.longest_sequence)
        like = torch.empty((), dtype=torch.float64)
        first_is_kept = self.rng.uniform_tensor(shape[0], 1, like=like) < self.zeroed_proportion
        is_kept = first_is_kept ^ (torch.arange(shape[1]) % 2 == 1)  # (sequences, segments)
        most = torch.where(is_kept, self.most_frames_kept, self.time_mask_max_frames)
        ends = (1 + (self.rng.uniform_tensor(*shape, like=like) * most).long()).cumsum(1)
        places = torch.arange(shape[1]).expand(shape).contiguous()
        segment_of_place = torch.searchsorted(ends, places, right=True)
        kept = is_kept.gather(1, segment_of_place)
        return kept[indexes.sequence_of_row, indexes.place_of_row].unsqueeze(1)


def _multiply(source: Tensor, mask: Tensor | None, target: Tensor) -> None:
    if mask is not None:
        torch.mul(source, mask, out=target)
    elif target.data_ptr() != source.data_ptr():
        target.copy_(source)
