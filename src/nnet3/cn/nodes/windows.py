"""Windows that move over images: their sizes, and images as columns.

An image of `rows` x `cols` pixels with `channels` numbers each is one column of a value: pixel by pixel along the rows,
the channels of a pixel side by side. Element (r * cols + c) * channels + k is channel k of pixel (r, c). What a
convolution gives is again such an image, so that convolutions can follow each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nnet3.cn.operation import Operation, put
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
        """The shape of the value. Raises ShapeError unless the operand is such images and it has some pixels."""
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
        """(samples, elements) as (samples, channels, rows, columns), the channels of a pixel side by side."""
        return images.unflatten(1, self.image).permute(0, 3, 1, 2)


def put_pixels(dest: Tensor, pixels: Tensor, accumulate: bool) -> None:
    """Put images (samples, channels, rows, columns) into (samples, elements), or add them."""
    moved = pixels.permute(0, 2, 3, 1)
    put(dest.unflatten(1, moved.shape[1:]), moved, accumulate)


def window_options(image: Any, window: Any, stride: Any, pad: Any) -> tuple[Any, Any, Any, Any]:
    """The options of `ImageOperation`: an image of (rows, columns) has one channel, a single number is for both."""
    if isinstance(image, tuple | list) and len(image) == 2:
        image = (*image, 1)
    return image, both(window), both(stride), pad


def both(size: Any) -> Any:
    """A size for rows and one for columns; a single one is for both."""
    return size if isinstance(size, tuple | list) else (size, size)
