"""Images: moving windows, their convolution (Section 1.5, 1.131 to 1.138) and pooling (1.139 to 1.142).

An image of `rows` x `cols` pixels with `channels` numbers each is one column of a value: pixel by pixel along the rows,
the channels of a pixel side by side. Element (r * cols + c) * channels + k is channel k of pixel (r, c). The result of
a convolution is again an image, so convolutions can follow convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, max_pool2d

from nnet3.cn.node import Node
from nnet3.cn.operation import Matrices, Operation, put
from nnet3.cn.shape import Shape
from nnet3.errors import ShapeError


@dataclass(frozen=True)
class ImageOperation(Operation):
    """Base of operations whose windows move over images.

    `image`: (rows, columns, channels); `window` and `stride`: (rows, columns); `pad`: zeros half a window around.
    """

    image: tuple[int, int, int]
    window: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pad: bool = False

    def check(self) -> None:
        if min(*self.image, *self.window, *self.stride) < 1:
            raise ShapeError(
                f"{self.type}: expected image=(rows, columns, channels), window=(rows, columns) and stride=(rows, "
                f"columns), all at least 1; got {self.image}, {self.window}, {self.stride}"
            )

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns from the first to the last pixel of a window."""
        return self.window

    @property
    def margins(self) -> tuple[int, int]:
        """Padding on each side: half the window, rounded down."""
        return (self.extent[0] // 2, self.extent[1] // 2) if self.pad else (0, 0)

    @property
    def value_size(self) -> tuple[int, int]:
        """Steps down and across: (I - K) / S + 1, or with padding (I - mod(K, 2)) / S + 1 (1.132, 1.133)."""
        sizes: Any = zip(self.image, self.extent, self.stride, self.margins, strict=False)
        rows, cols = ((size + 2 * margin - extent) // stride + 1 for size, extent, stride, margin in sizes)
        return rows, cols

    def shape_of(self, channels: int, images: Shape) -> Shape:
        """Returns the shape of the value. Raises ShapeError for an operand that is no such images, or no pixels."""
        height, width, depth = self.image
        if images.rows != height * width * depth:
            raise ShapeError(
                f"{self.type} of images of {height} x {width} x {depth} needs {math.prod(self.image)} rows"
            )
        if min(self.value_size) < 1:
            raise ShapeError(
                f"{self.type} of images of {height} x {width} has windows {self.extent} that do not fit in"
            )
        return Shape(math.prod(self.value_size) * channels, images.cols)

    def pixels(self, images: Tensor) -> Tensor:
        """Returns (samples, elements) as (samples, channels, rows, columns), the channels of a pixel side by side."""
        return images.unflatten(1, self.image).permute(0, 3, 1, 2)


def put_pixels(dest: Tensor, pixels: Tensor, accumulate: bool) -> None:
    """Writes images (samples, channels, rows, columns) to `dest` (samples, elements), or adds them to it."""
    moved = pixels.permute(0, 2, 3, 1)
    put(dest.unflatten(1, moved.shape[1:]), moved, accumulate)


def window_options(image: Any, window: Any, stride: Any, pad: Any) -> tuple[Any, Any, Any, Any]:
    """Returns `ImageOperation`'s options: an image (rows, columns) has one channel, one number is for both axes."""
    if isinstance(image, tuple | list) and len(image) == 2:
        image = (*image, 1)
    return image, both(window), both(stride), pad


def both(size: Any) -> Any:
    """Returns a size for rows and a size for columns; a single number is both sizes."""
    return size if isinstance(size, tuple | list) else (size, size)


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
    def extent(self) -> tuple[int, int]:
        down, across = (1 + (k - 1) * d for k, d in zip(self.window, self.dilation, strict=True))
        return down, across

    @property
    def num_weights(self) -> int:
        """Numbers of a kernel: those of a window, of all input channels."""
        return self.window[0] * self.window[1] * self.image[2]

    def infer(self, operands: Sequence[Shape]) -> Shape:
        kernels, images, *bias = operands
        value = self.shape_of(kernels.rows, images)
        if kernels.cols != self.num_weights:
            raise ShapeError(f"convolution needs kernels of (output channels) x {self.num_weights}")
        self.check_bias(bias, kernels.rows)
        return value

    def check_bias(self, bias: Sequence[Shape], channels: int) -> None:
        """Raises ShapeError for a bias that does not fit."""
        if bias and bias[0] != Shape(channels, 1):
            raise ShapeError(f"{self.type} needs a bias of {channels} x 1, a number for each output channel")

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # X = Pack(Y) (1.134), V = W X + b (1.135), which PyTorch computes without packing all windows
        kernels, images, *bias = inputs
        found = torch.convolution(self.pixels(images), self._weight(kernels), bias[0][0] if bias else None, *self._how)
        put_pixels(output, found, accumulate=False)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        per_window = gradient.unflatten(1, (*self.value_size, -1)).permute(0, 3, 1, 2)  # (samples, C_v, down, across)
        if child == 2:
            # db += dV 1, over windows and samples
            put(dx, per_window.sum((0, 2, 3))[None], accumulate)
            return
        # dW += dV X^T (1.136); dX = W^T dV (1.137), dY += Unpack(dX) (1.138); of what is not needed, the size
        images = self.pixels(inputs[1] if child == 0 else dx)
        weight = self._weight(inputs[0] if child == 1 else dx)
        found = torch.ops.aten.convolution_backward(
            per_window, images, weight, None, *self._how, (child == 1, child == 0, False)
        )
        put_pixels(dx.T if child == 0 else dx, found[1 - child], accumulate)

    @property
    def _how(self) -> tuple[Any, ...]:
        """Stride, padding, dilation, whether transposed, output padding, groups, as in PyTorch."""
        return self.stride, self.margins, self.dilation, False, (0, 0), 1

    def _weight(self, kernels: Tensor) -> Tensor:
        """Kernels as they lie, (K_r K_c C, rows), as (rows, C, K_r, K_c)."""
        weight = kernels.T.unflatten(1, (*self.window, -1)).permute(0, 3, 1, 2)
        return weight.contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class TransposedConvolution(Convolution):
    """W: C_y x (K_r K_c C_v), a row for a channel of Y; Y: images. V has `extra` rows and columns at the ends.

    The value is the gradient of a convolution with respect to its images (1.137, 1.138); its gradient is a convolution.
    """

    type: ClassVar[str] = "transposed_convolution"
    extra: tuple[int, int] = (0, 0)

    def check(self) -> None:
        super().check()
        if not all(0 <= extra < stride for extra, stride in zip(self.extra, self.stride, strict=True)):
            raise ShapeError(f"{self.type}: expected extra from 0 to less than the stride, got {self.extra}")

    def infer(self, operands: Sequence[Shape]) -> Shape:
        kernels, images, *bias = operands
        pixels = self.window[0] * self.window[1]
        if kernels.rows != self.image[2] or not kernels.num_cols or kernels.num_cols % pixels:
            raise ShapeError(f"{self.type} needs kernels of {self.image[2]} x ({pixels} times the output channels)")
        channels = kernels.num_cols // pixels
        self.check_bias(bias, channels)
        return self.shape_of(channels, images)

    @property
    def value_size(self) -> tuple[int, int]:
        sizes: Any = zip(self.image, self.extent, self.stride, self.margins, self.extra, strict=False)
        rows, cols = ((n - 1) * stride + extent - 2 * margin + extra for n, extent, stride, margin, extra in sizes)
        return rows, cols

    @property
    def _how(self) -> tuple[Any, ...]:
        return self.stride, self.margins, self.dilation, True, self.extra, 1


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
    """Convolves images with `kernels`, C_v x (window rows * window columns * C_x), and add `bias`, C_v x 1.

    Images are columns, pixel by pixel along the rows, the C_x channels of a pixel side by side; so are the rows of
    `kernels` and the result, of (steps down) x (steps across) x C_v. `image`: (rows, columns, channels); `window`
    and `stride`: (rows, columns) or one number for both; `pad`: zeros half a window around the image, so that stride 1
    and an odd window keep its size; `dilation`: the steps between the pixels of a window. Raises
    ShapeError if rows or kernels do not fit.
    """
    operands = (kernels, images) if bias is None else (kernels, images, bias)
    return Node(Convolution(*window_options(image, window, stride, pad), both(dilation)), operands, name)


def transposed_convolution(
    kernels: Node,
    images: Node,
    bias: Node | None = None,
    *,
    image: tuple[int, int, int] | tuple[int, int],
    window: tuple[int, int] | int,
    stride: tuple[int, int] | int = 1,
    pad: bool = False,
    dilation: tuple[int, int] | int = 1,
    extra: tuple[int, int] | int = 0,
    name: str = "",
) -> Node:
    """Returns each pixel of images (rows, columns, C_y) times its kernel, added up where the window lies.

    This is the transpose of `convolution` (`torch.nn.ConvTranspose2d`): small images become large. The result has
    (rows - 1) * stride + window - margins on both sides + `extra` rows; convolutions of several sizes give equal
    results, and `extra` chooses among the sizes. `kernels`, C_y x (window rows * window columns * C_v), are the
    convolution's; `bias` is C_v x 1. Raises ShapeError if rows or kernels do not fit.
    """
    operands = (kernels, images) if bias is None else (kernels, images, bias)
    options = (*window_options(image, window, stride, pad), both(dilation), both(extra))
    return Node(TransposedConvolution(*options), operands, name)


@dataclass(frozen=True)
class Pooling(ImageOperation):
    """Base: one number from a window and channel."""

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
    """Returns the largest element of every window and channel. Images and options as in `convolution`."""
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
    """Returns the mean of each window and channel; zeros in the margin count. Options are those of `convolution`."""
    return Node(AveragePooling(*window_options(image, window, stride, pad)), (images,), name)
