"""A convolution over time and height as one ordinary 2-D convolution, when rows and offsets are regular enough.

Rows are ordered by time, then sequence. So neighbouring times of one sequence lie as many rows apart as there are
sequences, and a convolution over time is one over rows with this dilation, of a picture with channels last. On the CPU
PyTorch's kernel for it is faster than matrix products; on a GPU it would round to fewer bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from nnet3.components.convolution_model import ConvolutionModel
from nnet3.components.time_blocks import TimeBlocks

_MOST_WASTE = 1.5  # rows computed for each row wanted


@dataclass(frozen=True)
class RowConvolution:
    """Axes of pairs: rows, heights. The wanted output begins at `first` in the result of the convolution."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    first: tuple[int, int]
    result: tuple[int, int]  # rows and heights of the result

    def forward(self, x: Tensor, y: Tensor, weights: Tensor, bias: Tensor, model: ConvolutionModel) -> None:
        """Fill y from x."""
        picture = _picture(x, model.height_in)
        kernel = self._kernel(weights, model)
        result = conv2d(picture, kernel, bias, self.stride, self.padding, self.dilation)[0].permute(1, 2, 0)
        wanted = result[self.first[0] : self.first[0] + len(y), self.first[1] : self.first[1] + model.height_out]
        y.unflatten(1, wanted.shape[1:]).copy_(wanted)

    def backward_data(self, y_deriv: Tensor, x_deriv: Tensor, weights: Tensor, model: ConvolutionModel) -> None:
        """Fill x_deriv from y_deriv."""
        of_result = _picture(y_deriv, model.height_out)
        margins = [(first, size - first - wanted) for first, size, wanted in self._margins(of_result)]
        if any(map(any, margins)):
            (before_rows, after_rows), (before_heights, after_heights) = margins
            of_result = pad(of_result, (before_heights, after_heights, before_rows, after_rows))
        shape = (1, model.num_filters_in, len(x_deriv), model.height_in)
        x_like = x_deriv.new_empty(()).expand(shape)  # only its shape matters
        derivs, _, _ = torch.ops.aten.convolution_backward(
            of_result, x_like, self._kernel(weights, model), None,
            self.stride, self.padding, self.dilation, False, (0, 0), 1, (True, False, False),
        )  # fmt: skip
        x_deriv.unflatten(1, (model.height_in, -1)).copy_(derivs[0].permute(1, 2, 0))

    def _margins(self, of_result: Tensor) -> list[tuple[int, int, int]]:
        return list(zip(self.first, self.result, of_result.shape[2:], strict=True))

    def _kernel(self, weights: Tensor, model: ConvolutionModel) -> Tensor:
        return weights.unflatten(1, (*self.kernel, model.num_filters_in)).permute(0, 3, 1, 2)


def suits_kernel(*matrices: Tensor) -> bool:
    """Returns True if the fast kernel takes these matrices as they are."""
    return all(
        matrix.device.type == "cpu" and matrix.dtype == torch.float32 and matrix.is_contiguous() for matrix in matrices
    )


def row_convolution(model: ConvolutionModel, blocks: TimeBlocks) -> RowConvolution | None:
    """Returns the convolution that does the same, if there is one that does not compute much more."""
    heights = sorted({height for _, height in model.offsets})
    num_times, num_rows, num_input_rows = len(model.time_offsets), blocks.num_output_rows, blocks.num_input_rows
    if len(model.offsets) != num_times * len(heights) or len(blocks.blocks) != num_times:
        return None
    shifts = []  # input row less output row, of each time offset
    for block in sorted(blocks.blocks, key=lambda block: block.offset):
        shift = block.input_start - block.output_start
        first, last = max(0, -shift), min(num_rows, num_input_rows - shift)
        if block.input_step != 1 or (block.output_start, block.num_rows) != (first, last - first):
            return None
        shifts.append(shift)
    row_step, height_step = _constant_step(shifts), _constant_step(heights)
    if row_step is None or height_step is None:
        return None
    rows = _axis(num_input_rows, num_rows, shifts, row_step, 1)
    columns = _axis(model.height_in, model.height_out, heights, height_step, model.height_subsample_out)
    if rows[2] * columns[2] > _MOST_WASTE * num_rows * model.height_out:
        return None
    padding, first_wanted, result = zip(rows, columns, strict=True)
    dilation = (row_step, height_step)
    return RowConvolution(
        (num_times, len(heights)), (1, model.height_subsample_out), padding, dilation, first_wanted, result
    )


def _picture(matrix: Tensor, height: int) -> Tensor:
    """(rows, height * filters) as one picture (1, filters, rows, height)."""
    return matrix.unflatten(1, (height, -1)).permute(2, 0, 1).unsqueeze(0)


def _constant_step(values: list[int]) -> int | None:
    """The step of rising values, 1 for a single one, None if there are several steps."""
    steps = np.unique(np.diff(values))
    if len(steps) == 0:
        return 1
    return int(steps[0]) if len(steps) == 1 and steps[0] > 0 else None


def _axis(num_in: int, num_out: int, offsets: list[int], step: int, stride: int) -> tuple[int, int, int]:
    """Padding on both sides, where the wanted output begins in the result, and the length of the result."""
    padding = max(0, -offsets[0], (num_out - 1) * stride + offsets[-1] - (num_in - 1))
    padding += -(offsets[0] + padding) % stride
    length = (num_in + 2 * padding - step * (len(offsets) - 1) - 1) // stride + 1
    return padding, (offsets[0] + padding) // stride, length
