"""Convolution of images (Section 1.5, 1.131 to 1.138)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.nodes.windows import ImageOperation, Windows, window_options
from nnet3.cn.operation import Matrices, put
from nnet3.cn.shape import Shape
from nnet3.errors import ShapeError


@dataclass(frozen=True)
class Convolution(ImageOperation):
    """W: C_v x (K_r K_c C_x), a row for each output channel, laid out as the image of a window; Y: images.

    A third operand b, C_v x 1, is added to each pixel. `dilation`: the steps between the pixels of a window.
    """

    type: ClassVar[str] = "convolution"
    weights: ClassVar[tuple[int, ...]] = (0,)
    num_operands: ClassVar[int] = 3
    num_optional: ClassVar[int] = 1
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({1}), frozenset({0}), frozenset())

    dilation: tuple[int, int] = (1, 1)

    def check(self) -> None:
        super().check()
        if min(self.dilation) < 1:
            raise ShapeError(f"{self.type}: expected a dilation of at least 1, got {self.dilation}")

    @property
    def windows(self) -> Windows:
        """The windows with the pixels between those that count."""
        down, across = (1 + (k - 1) * d for k, d in zip(self.window, self.dilation, strict=True))
        return Windows(self.image, (down, across), self.stride, self.pad)

    @property
    def num_weights(self) -> int:
        """Numbers of a kernel: those of a window, of all input channels."""
        return self.window[0] * self.window[1] * self.image[2]

    def infer(self, operands: Sequence[Shape]) -> Shape:
        kernels, images, *bias = operands
        self.windows.check(self.type, images.rows)
        if kernels.cols != self.num_weights:
            raise ShapeError(f"convolution needs kernels of (output channels) x {self.num_weights}")
        if bias and bias[0] != Shape(kernels.rows, 1):
            raise ShapeError(f"convolution needs a bias of {kernels.rows} x 1, a number for each output channel")
        steps_down, steps_across = self.windows.output_size
        return Shape(kernels.rows * steps_down * steps_across, images.cols)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # X = Pack(Y) (1.134), V = W X + b (1.135), which PyTorch computes without packing all windows
        kernels, images, *bias = inputs
        found = torch.nn.functional.conv2d(
            self._pixels(images), self._weight(kernels), bias[0][0] if bias else None, self.stride,
            self.windows.margins, self.dilation,
        )  # fmt: skip
        output.unflatten(1, (*found.shape[2:], found.shape[1])).copy_(found.permute(0, 2, 3, 1))

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        per_window = gradient.unflatten(1, (*self.windows.output_size, -1))  # (samples, down, across, C_v)
        if child == 2:
            # db += dV 1, over windows and samples
            put(dx, per_window.sum((0, 1, 2))[None], accumulate)
            return
        # dW += dV X^T (1.136); dX = W^T dV (1.137), dY += Unpack(dX) (1.138)
        channels, samples = per_window.shape[3], len(gradient)
        shape = (samples, self.image[2], *self.image[:2])
        images = self._pixels(inputs[1]) if child == 0 else gradient.new_empty(1).expand(shape)
        kernels = gradient.new_empty(1).expand(channels, self.image[2], *self.window)
        found = torch.ops.aten.convolution_backward(
            per_window.permute(0, 3, 1, 2), images, self._weight(inputs[0]) if child == 1 else kernels, None,
            self.stride, self.windows.margins, self.dilation, False, (0, 0), 1, (child == 1, child == 0, False),
        )  # fmt: skip
        moved = found[1 - child].permute(0, 2, 3, 1)  # channels last
        put((dx.T if child == 0 else dx).unflatten(1, moved.shape[1:]), moved, accumulate)

    def _pixels(self, images: Tensor) -> Tensor:
        """(samples, elements) as (samples, channels, rows, columns), the channels of a pixel side by side."""
        return images.unflatten(1, self.image).permute(0, 3, 1, 2)

    def _weight(self, kernels: Tensor) -> Tensor:
        """Kernels as they lie, (K_r K_c C_x, C_v), as (C_v, C_x, K_r, K_c)."""
        weight = kernels.T.unflatten(1, (*self.window, self.image[2])).permute(0, 3, 1, 2)
        return weight.contiguous(memory_format=torch.channels_last)


def convolution(
    kernels: Node,
    images: Node,
    bias: Node | None = None,
    *,
    image: tuple[int, int, int] | tuple[int, int],
    window: tuple[int, int] | int,
    stride: tuple[int, int] | int = 1,
    pad: bool = False,
    dilation: tuple[int, int] | int = 1,
    name: str = "",
) -> Node:
    """Convolve images with `kernels`, C_v x (window rows * window columns * C_x), and add `bias`, C_v x 1.

    Images are columns, pixel by pixel along the rows, the C_x channels of a pixel side by side; so are the rows of
    `kernels` and the result, of (steps down) x (steps across) x C_v. `image`: (rows, columns, channels); `window`
    and `stride`: (rows, columns) or one number for both; `pad`: zeros half a window around the image, so that stride 1
    and an odd window keep its size; `dilation`: the steps between the pixels of a window. Raises
    ShapeError if rows or kernels do not fit.
    """
    operands = (kernels, images) if bias is None else (kernels, images, bias)
    steps: Any = dilation if isinstance(dilation, tuple | list) else (dilation, dilation)
    return Node(Convolution(*window_options(image, window, stride, pad), steps), operands, name)
