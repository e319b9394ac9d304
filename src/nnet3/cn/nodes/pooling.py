"""Max and average pooling of images (1.139 to 1.142)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, max_pool2d

from nnet3.cn.node import Node
from nnet3.cn.nodes.windows import ImageOperation, put_pixels, window_options
from nnet3.cn.operation import Matrices
from nnet3.cn.shape import Shape


@dataclass(frozen=True)
class Pooling(ImageOperation):
    """Base: one number from each window and channel."""

    def infer(self, operands: Sequence[Shape]) -> Shape:
        return self.shape_of(self.image[2], operands[0])


@dataclass(frozen=True)
class MaxPooling(Pooling):
    type: ClassVar[str] = "max_pooling"
    uses_memo: ClassVar[bool] = True

    def evaluate(self, inputs: Matrices, output: Tensor) -> Tensor:
        # v_lij = max of the window (1.139); margins never win; of equal elements the first does
        pixels = self.pixels(inputs[0])
        largest, where = max_pool2d(pixels, self.window, self.stride, self.margins, return_indices=True)
        put_pixels(output, largest, accumulate=False)
        return where.permute(0, 2, 3, 1).flatten(1, 2)  # (samples, steps, channels): the number of a pixel

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # [dX]_(l, i_m, j_n) += [dV]_lij where (m, n) is the largest of its window (1.140, index of dV corrected)
        if not accumulate:
            dx.zero_()
        pixels = dx.unflatten(1, (self.image[0] * self.image[1], self.image[2]))
        pixels.scatter_add_(1, memo, gradient.unflatten(1, memo.shape[1:]))


@dataclass(frozen=True)
class AveragePooling(Pooling):
    type: ClassVar[str] = "average_pooling"

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v_lij = 1 / (K_r K_c) times the sum of the window, margins being zeros that count (1.141)
        means = avg_pool2d(self.pixels(inputs[0]), self.window, self.stride, self.margins)
        put_pixels(output, means, accumulate=False)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # [dX]_(l, i_m, j_n) += [dV]_lij / (K_r K_c) for all (m, n) of the window (1.142, index of dX corrected)
        per_window = gradient.unflatten(1, (*self.value_size, self.image[2])).permute(0, 3, 1, 2)
        found = torch.ops.aten.avg_pool2d_backward(
            per_window, self.pixels(dx), self.window, self.stride, self.margins, False, True, None
        )
        put_pixels(dx, found, accumulate)


def max_pooling(
    images: Node,
    *,
    image: tuple[int, int, int] | tuple[int, int],
    window: tuple[int, int] | int,
    stride: tuple[int, int] | int = 1,
    pad: bool = False,
    name: str = "",
) -> Node:
    """The largest element of each window, for each channel. Images and options as in `convolution`."""
    return Node(MaxPooling(*window_options(image, window, stride, pad)), (images,), name)


def average_pooling(
    images: Node,
    *,
    image: tuple[int, int, int] | tuple[int, int],
    window: tuple[int, int] | int,
    stride: tuple[int, int] | int = 1,
    pad: bool = False,
    name: str = "",
) -> Node:
    """The mean of each window, for each channel; zeros of the margin count. Images and options as in `convolution`."""
    return Node(AveragePooling(*window_options(image, window, stride, pad)), (images,), name)
