"""SpecAugmentTimeMaskComponent: zeroes stretches of time (components.md 6.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import read_integer
from nnet3.components.index_arrays import IndexArrays, load_fields
from nnet3.components.random_component import RandomComponent, read_proportion
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.summary import format_number

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine


@dataclass(frozen=True)
class SpecAugmentTimeMaskIndexes:
    """Of each row, the number of its sequence and its place by time in that sequence (rows)."""

    sequence_of_row: Tensor
    place_of_row: Tensor
    num_sequences: int
    longest_sequence: int


@register
class SpecAugmentTimeMaskComponent(RandomComponent):
    """y = x with segments of up to time_mask_max_frames rows zeroed, about zeroed_proportion of each sequence."""

    type_name = "SpecAugmentTimeMaskComponent"
    properties = Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE | Properties.USES_MEMO | Properties.RANDOM
    needs_indexes = True

    def __init__(
        self, dim: int, zeroed_proportion: float = 0.25, time_mask_max_frames: int = 10, test_mode: bool = False
    ):
        super().__init__(test_mode)
        self.input_dim = self.output_dim = dim
        self.zeroed_proportion = zeroed_proportion
        self.time_mask_max_frames = time_mask_max_frames

    @property
    def most_frames_kept(self) -> int:
        """The longest segment that is not zeroed; below 1 the settings contradict each other."""
        if self.zeroed_proportion == 0.0:
            return self.time_mask_max_frames
        return int(self.time_mask_max_frames * (1.0 - self.zeroed_proportion) / self.zeroed_proportion)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        component = cls(
            line.integer("dim", minimum=1),
            line.number("zeroed-proportion", 0.25, minimum=0.0, maximum=1.0),
            line.integer("time-mask-max-frames", 10, minimum=2),
        )
        if component.most_frames_kept < 1:
            raise line.error(
                f"'zeroed-proportion' {component.zeroed_proportion:g} leaves not one frame between masks of up to "
                f"{component.time_mask_max_frames} frames",
                "zeroed-proportion",
            )
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        reader.expect("<Dim>")
        dim = read_integer(reader, "<Dim>")
        reader.expect("<ZeroedProportion>")
        start = reader.position
        proportion = read_proportion(reader, "<ZeroedProportion>")
        reader.expect("<TimeMaskMaxFrames>")
        component = cls(dim, proportion, read_integer(reader, "<TimeMaskMaxFrames>", 2), reader.accept("<TestMode>"))
        if component.most_frames_kept < 1:
            raise reader.error_at(start, f"<ZeroedProportion> {proportion:g} is too large for its <TimeMaskMaxFrames>")
        reader.expect("</SpecAugmentTimeMaskComponent>")
        return component

    def write_body(self, writer: Writer) -> None:
        writer.token("<Dim>")
        writer.int32(self.input_dim)
        writer.token("<ZeroedProportion>")
        writer.real(self.zeroed_proportion)
        writer.token("<TimeMaskMaxFrames>")
        writer.int32(self.time_mask_max_frames)
        if self.test_mode:
            writer.token("<TestMode>")

    def info(self) -> str:
        text = f"{self.type_name}, dim={self.input_dim}, zeroed-proportion={format_number(self.zeroed_proportion)}"
        return f"{text}, time-mask-max-frames={self.time_mask_max_frames}"

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
        """On the CPU whatever the device: masks are drawn there."""
        return SpecAugmentTimeMaskIndexes(**load_fields(arrays, "cpu"))

    def forward(self, x: Tensor, y: Tensor, indexes: SpecAugmentTimeMaskIndexes | None = None) -> Tensor | None:
        """The memo is what each row is multiplied by, (rows, 1), or None for the identity."""
        assert indexes is not None, "this type has needs_indexes"
        if self.test_mode or self.zeroed_proportion == 0.0:
            _multiply(x, None, y)
            return None
        mask = self._mask(indexes).to(x)
        _multiply(x, mask, y)
        return mask

    def backward(
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: Tensor | None,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: SpecAugmentTimeMaskIndexes | None = None,
    ) -> None:
        if x_deriv is not None:
            _multiply(y_deriv, memo, x_deriv)

    def _mask(self, indexes: SpecAugmentTimeMaskIndexes) -> Tensor:
        """Whether each row is kept, (rows, 1).

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
