"""The geometry of a convolution over time and height: sizes, offsets, and the weights that columns meet.

A row holds all heights of one time; column h F + f is filter f at height h. For one time offset, an output height
mostly reads neighbouring heights: one stretch of columns of the row. A `HeightPiece` collects output heights whose
stretches have equal lengths and move by a constant step. As a strided view the stretches are a batch of matrices, one
for each output height, without any copying.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor
from typing_extensions import Self

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.text import ConfigLine
from nnet3.model.components.field_table import Field, read_fields, show, write_fields
from nnet3.model.components.value_kinds import SIZE, Kind, Values, too_wide

_SIZES = (
    *(Field(name, SIZE) for name in ("num_filters_in", "num_filters_out", "height_in", "height_out")),
    Field("height_subsample_out", SIZE, default=1),
)
_OFFSET_PAIR = re.compile(r"\s*([+-]?\d+)\s*,\s*([+-]?\d+)\s*")


@dataclass(frozen=True)
class HeightPiece:
    """Target heights `target_start` + i `target_step`, i < `count`, each read through the taps from `first_tap` on
    the source heights from `source_start` + i `source_step` on."""

    first_tap: int
    num_taps: int
    target_start: int
    target_step: int
    source_start: int
    source_step: int
    count: int

    def of_target(self, matrix: Tensor, filters: int) -> Tensor:
        """Returns a view (count, rows, filters)."""
        return _height_view(matrix, self.target_start * filters, self.target_step * filters, self.count, filters)

    def of_source(self, matrix: Tensor, filters: int) -> Tensor:
        """Returns a view (count, rows, taps * filters)."""
        columns = self.num_taps * filters
        return _height_view(matrix, self.source_start * filters, self.source_step * filters, self.count, columns)


def _height_view(matrix: Tensor, start: int, step: int, count: int, columns: int) -> Tensor:
    shape, strides = (count, matrix.shape[0], columns), (step, matrix.stride(0), 1)
    return matrix.as_strided(shape, strides, matrix.storage_offset() + start)


@dataclass(frozen=True)
class TimeTaps:
    """The weights of one time offset, as two lists of pieces.

    Forward, taps are the height offsets in rising order, sources are input heights and targets output heights.
    Backward, `backward_order` lists the taps so that output heights with a common input height are neighbours.
    """

    first_column: int  # of these taps in linear_params, in units of num_filters_in
    num_taps: int
    forward: tuple[HeightPiece, ...]
    backward: tuple[HeightPiece, ...]
    backward_order: tuple[int, ...]


@dataclass(frozen=True)
class ConvolutionModel:
    offsets: tuple[tuple[int, int], ...]  # pairs (time, height), sorted
    required_time_offsets: tuple[int, ...]  # sorted
    num_filters_in: int
    num_filters_out: int
    height_in: int
    height_out: int
    height_subsample_out: int

    @property
    def input_dim(self) -> int:
        return self.num_filters_in * self.height_in

    @property
    def output_dim(self) -> int:
        return self.num_filters_out * self.height_out

    @property
    def num_columns(self) -> int:
        """The columns of linear_params: the number of weights of one output filter."""
        return len(self.offsets) * self.num_filters_in

    @cached_property
    def time_offsets(self) -> tuple[int, ...]:
        return tuple(sorted({time for time, _ in self.offsets}))

    @cached_property
    def taps(self) -> tuple[TimeTaps, ...]:
        """The taps of every time offset in `time_offsets`."""
        result, first = [], 0
        for time in self.time_offsets:
            heights = np.array([height for t, height in self.offsets if t == time])
            result.append(self._taps(first, heights))
            first += len(heights)
        return tuple(result)

    def _taps(self, first_column: int, offsets: np.ndarray) -> TimeTaps:
        step = self.height_subsample_out
        source = np.arange(self.height_out)[:, np.newaxis] * step + offsets
        source[(source < 0) | (source >= self.height_in)] = -1
        order = np.lexsort((-offsets, offsets % step))
        scaled = np.arange(self.height_in)[:, np.newaxis] - offsets[order]
        target = scaled // step
        target[(scaled % step != 0) | (target < 0) | (target >= self.height_out)] = -1
        pieces = tuple(_pieces(source)), tuple(_pieces(target))
        return TimeTaps(first_column, len(offsets), *pieces, tuple(order.tolist()))

    @classmethod
    def from_config(cls, line: ConfigLine) -> Self:
        sizes: dict[str, Any] = {}
        for field in _SIZES:
            field.parse(line, sizes)
        if line.has("offsets"):
            offsets, key = _parse_offsets(line), "offsets"
        else:
            heights, times = _increasing(line, "height-offsets"), _increasing(line, "time-offsets")
            offsets, key = [(time, height) for time in times for height in heights], "height-offsets"
        all_times = sorted({time for time, _ in offsets})
        required = _increasing(line, "required-time-offsets") if line.has("required-time-offsets") else all_times
        if not set(required) <= set(all_times):
            raise line.error(f"'required-time-offsets' must be among {all_times}", "required-time-offsets")
        model = cls(tuple(offsets), tuple(required), **sizes)
        fault = model.fault()
        if fault:
            raise line.error(fault, key)
        return model

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Reads a model from `<ConvolutionModel>` to its closing token."""
        reader.expect("<ConvolutionModel>")
        sizes = read_fields(reader, _SIZES)
        reader.expect("<Offsets>")
        offsets = [(int(time), int(height)) for time, height in reader.pair_vector()]
        if not offsets or offsets != sorted(set(offsets)):
            raise reader.error("<Offsets> must be different pairs in rising order")
        required = reader.after("<RequiredTimeOffsets>").int_vector().tolist()
        if required != sorted(set(required)) or not set(required) <= {time for time, _ in offsets}:
            raise reader.error(f"<RequiredTimeOffsets> must be rising and among those of <Offsets>, got {required}")
        model = cls(tuple(offsets), tuple(required), **sizes)
        fault = model.fault()
        if fault:
            raise reader.error(fault)
        reader.expect("</ConvolutionModel>")
        return model

    def write(self, writer: Writer) -> None:
        writer.token("<ConvolutionModel>")
        write_fields(writer, self, _SIZES)
        writer.token("<Offsets>").pair_vector(self.offsets)
        writer.token("<RequiredTimeOffsets>").int_vector(self.required_time_offsets)
        writer.token("</ConvolutionModel>")

    def info(self) -> str:
        pairs = " ".join(f"{time},{height}" for time, height in self.offsets)
        required = ",".join(map(str, self.required_time_offsets))
        sizes = show(self, _SIZES, [field.name for field in _SIZES]).removeprefix(", ")
        return (
            f"{sizes}, {{time,height}}-offsets=[{pairs}], required-time-offsets=[{required}]"
            f", input-dim={self.input_dim}, output-dim={self.output_dim}"
        )

    def fault(self) -> str | None:
        """Returns the reason why the model cannot be computed, None if it can."""
        if max(self.input_dim, self.output_dim) >= 2**31:
            return f"input dim {self.input_dim} and output dim {self.output_dim} must fit 32 bits"
        wide = too_wide(len(self.time_offsets), 2 * max(map(abs, self.time_offsets)) + 1)
        if wide:
            return wide
        for time, height in self.offsets:
            if len(self._served({height})) == 0:
                return f"no output height can use the offset {time},{height}"
        required = {height for time, height in self.offsets if time in self.required_time_offsets}
        next_height = 0
        for first, last in sorted(self._served(required)):
            if first > next_height:
                break
            next_height = max(next_height, last + 1)
        if next_height < self.height_out:
            return f"output height {next_height} has no offset of a required time within the input"
        return None

    def _served(self, height_offsets: Iterable[int]) -> list[tuple[int, int]]:
        """Returns first and last output height with an input in range, for each offset with such heights."""
        step = self.height_subsample_out
        ranges = []
        for offset in height_offsets:
            first, last = max(0, -(offset // step)), min(self.height_out - 1, (self.height_in - 1 - offset) // step)
            if first <= last:
                ranges.append((first, last))
        return ranges


class ModelKind(Kind):
    """A model as a value of a component in a file."""

    def load(self, reader: Reader, what: str, values: Values) -> ConvolutionModel:
        return ConvolutionModel.read(reader)

    def write(self, writer: Writer, value: Any) -> None:
        value.write(writer)


def _pieces(source: np.ndarray) -> Iterator[HeightPiece]:
    """Yields all pieces of a table (target heights, taps) of source heights, -1 for none."""
    valid = source >= 0
    goes_on = np.zeros_like(valid)  # whether a tap continues the stretch of the tap before it
    goes_on[:, 1:] = valid[:, 1:] & valid[:, :-1] & (source[:, 1:] == source[:, :-1] + 1)
    target, first_tap = np.nonzero(valid & ~goes_on)
    ends = valid.copy()
    ends[:, :-1] &= ~goes_on[:, 1:]
    num_taps = np.nonzero(ends)[1] + 1 - first_tap
    order = np.lexsort((target, num_taps, first_tap))
    runs = np.stack([first_tap, num_taps, target, source[target, first_tap]], axis=1)[order].tolist()
    start = 0
    while start < len(runs):
        end = _end_of_progression(runs, start)
        first, second = runs[start], runs[min(start + 1, end - 1)]
        steps = (second[2] - first[2], second[3] - first[3])
        yield HeightPiece(first[0], first[1], first[2], steps[0], first[3], steps[1], end - start)
        start = end


def _end_of_progression(runs: Sequence[Sequence[int]], start: int) -> int:
    """Returns where the runs from `start` on cease to have the same taps and to move by the same steps."""
    end = start + 1
    while end < len(runs) and runs[end][:2] == runs[start][:2]:
        steps = [b - a for a, b in zip(runs[end - 1][2:], runs[end][2:], strict=True)]
        if end - start > 1 and steps != [b - a for a, b in zip(runs[start][2:], runs[start + 1][2:], strict=True)]:
            break
        end += 1
    return end


def _increasing(line: ConfigLine, key: str) -> list[int]:
    values = line.integers(key, separators=",")
    if not values or values != sorted(set(values)):
        raise line.error(f"'{key}' must be a list of integers in rising order", key)
    return values


def _parse_offsets(line: ConfigLine) -> list[tuple[int, int]]:
    """Parses `time,height;time,height;...`; returns pairs in order."""
    pairs = []
    for text in line.string("offsets").split(";"):
        match = _OFFSET_PAIR.fullmatch(text)
        if not match:
            raise line.error(f"'offsets' must be time,height;time,height;..., got '{text}'", "offsets")
        pairs.append((int(match[1]), int(match[2])))
    if len(set(pairs)) < len(pairs):
        raise line.error("'offsets' has a pair twice", "offsets")
    return sorted(pairs)
