"""Convolution as one matrix product over packed windows (Section 1.5, 1.131 to 1.138)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.nodes.windows import ImageOperation, contiguous_like, window_options
from nnet3.cn.operation import Matrices, put
from nnet3.cn.shape import Shape
from nnet3.errors import ShapeError


@dataclass(frozen=True)
class Convolution(ImageOperation):
    """W: C_v x (K_r K_c C_x), a row for each output channel, laid out as the image of a window; Y: images.

    A third operand b, C_v x 1, is added to each pixel.
    """

    type: ClassVar[str] = "convolution"
    weights: ClassVar[tuple[int, ...]] = (0,)
    num_operands: ClassVar[int] = 3
    num_optional: ClassVar[int] = 1
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({1}), frozenset({0}), frozenset())

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
        # X = Pack(Y) (1.134), V = W X + b (1.135): a row of `packed` is one window, a row of the product its channels
        kernels, images, *bias = inputs
        packed = self._pack(images)
        dest = contiguous_like(output)
        per_window = dest.view(len(packed), kernels.shape[1])
        if bias:
            torch.addmm(bias[0], packed, kernels, out=per_window)
        else:
            torch.mm(packed, kernels, out=per_window)
        if dest is not output:
            output.copy_(dest)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        steps_down, steps_across = self.windows.output_size
        per_window = gradient.reshape(len(gradient) * steps_down * steps_across, -1)  # (windows, C_v)
        if child == 0:
            # dW += dV X^T (1.136)
            packed = self._pack(inputs[1])
            if accumulate:
                dx.addmm_(packed.T, per_window)
            else:
                torch.mm(packed.T, per_window, out=dx)
            return
        if child == 2:
            # db += dV 1, over windows and samples
            put(dx, per_window.sum(0, keepdim=True), accumulate)
            return
        # dX = W^T dV (1.137), dY += Unpack(dX) (1.138)
        d_packed = torch.mm(per_window, inputs[0].T)
        shape = (len(gradient), steps_down, steps_across, *self.window, self.image[2])
        put(dx, self.windows.add_back(d_packed.view(shape)), accumulate)

    def _pack(self, images: Tensor) -> Tensor:
        """All windows, a row each: (samples * steps, K_r K_c C_x)."""
        windows = self.windows
        return windows.view(windows.padded(images)).reshape(
            len(images) * windows.output_size[0] * windows.output_size[1], -1
        )


def convolution(
    kernels: Node,
    images: Node,
    bias: Node | None = None,
    *,
    image: tuple[int, int, int] | tuple[int, int],
    window: tuple[int, int] | int,
    stride: tuple[int, int] | int = 1,
    pad: bool = False,
    name: str = "",
) -> Node:
    """Convolve images with `kernels`, C_v x (window rows * window columns * C_x), and add `bias`, C_v x 1.

    Images are columns, pixel by pixel along the rows, the C_x channels of a pixel side by side; so are the rows of
    `kernels` and the result, of (steps down) x (steps across) x C_v. `image`: (rows, columns, channels); `window`
    and `stride`: (rows, columns) or one number for both; `pad`: zeros half a window around the image, so that stride 1
    and an odd window keep its size. Raises ShapeError if rows or kernels do not fit.
    """
    operands = (kernels, images) if bias is None else (kernels, images, bias)
    return Node(Convolution(*window_options(image, window, stride, pad)), operands, name)
