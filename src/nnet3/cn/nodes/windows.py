"""Windows that move over images: sizes, and all windows of a batch of images as one view.

An image of `rows` x `cols` pixels with `channels` numbers each is one column of a value: pixel by pixel along the rows,
the channels of a pixel side by side. Element (r * cols + c) * channels + k is channel k of pixel (r, c). What a
convolution gives is again such an image, so that convolutions can follow each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn.functional import pad as pad_tensor

from nnet3.cn.operation import Operation
from nnet3.errors import ShapeError


@dataclass(frozen=True)
class Windows:
    """`image`: (rows, columns, channels); `window` and `stride`: (rows, columns); `pad`: zeros half a window around."""

    image: tuple[int, int, int]
    window: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pad: bool = False

    @property
    def margins(self) -> tuple[int, int]:
        """Padding on each side: half the window, rounded down."""
        return (self.window[0] // 2, self.window[1] // 2) if self.pad else (0, 0)

    @property
    def output_size(self) -> tuple[int, int]:
        """Steps down and across: (I - K) / S + 1, or with padding (I - mod(K, 2)) / S + 1 (1.132, 1.133)."""
        sizes = []
        for size, window, stride, margin in zip(self.image, self.window, self.stride, self.margins, strict=False):
            sizes.append((size + 2 * margin - window) // stride + 1)
        return sizes[0], sizes[1]

    @property
    def num_inputs(self) -> int:
        return self.image[0] * self.image[1] * self.image[2]

    def check(self, type: str, rows: int) -> None:
        """Raise ShapeError unless columns of `rows` elements are such images and a window fits in."""
        height, width, channels = self.image
        if rows != self.num_inputs:
            raise ShapeError(f"{type} of images of {height} x {width} x {channels} needs {self.num_inputs} rows")
        if min(self.output_size) < 1:
            raise ShapeError(f"{type} of images of {height} x {width} has windows {self.window} that do not fit in")

    def padded(self, images: Tensor, value: float = 0.0) -> Tensor:
        """(samples, elements) as (samples, rows, columns, channels), with margins of `value`."""
        pixels = images.unflatten(1, self.image)
        down, across = self.margins
        return pad_tensor(pixels, (0, 0, across, across, down, down), value=value) if self.pad else pixels

    def view(self, padded: Tensor) -> Tensor:
        """All windows: a view (samples, steps down, steps across, window rows, window columns, channels)."""
        moved = padded.unfold(1, self.window[0], self.stride[0]).unfold(2, self.window[1], self.stride[1])
        steps_down, steps_across = self.output_size
        return moved.permute(0, 1, 2, 4, 5, 3)[:, :steps_down, :steps_across]

    def add_back(self, windows: Tensor) -> Tensor:
        """The sum of all windows (shaped as `view` shapes them) where they lie: (samples, elements)."""
        height, width, channels = self.image
        down, across = self.margins
        total = windows.new_zeros(len(windows), height + 2 * down, width + 2 * across, channels)
        steps_down, steps_across = self.output_size
        for row in range(self.window[0]):
            for col in range(self.window[1]):
                last_row = row + (steps_down - 1) * self.stride[0] + 1
                last_col = col + (steps_across - 1) * self.stride[1] + 1
                place = total[:, row : last_row : self.stride[0], col : last_col : self.stride[1]]
                place += windows[:, :, :, row, col]
        return total[:, down : down + height, across : across + width].reshape(len(windows), -1)


@dataclass(frozen=True)
class ImageOperation(Operation):
    """Base of operations whose windows move over images; the options are those of `Windows`."""

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
    def windows(self) -> Windows:
        return Windows(self.image, self.window, self.stride, self.pad)


def window_options(image: Any, window: Any, stride: Any, pad: Any) -> tuple[Any, Any, Any, Any]:
    """The options of `ImageOperation`: an image of (rows, columns) has one channel, a single number is for both."""
    if isinstance(image, tuple | list) and len(image) == 2:
        image = (*image, 1)
    window, stride = (each if isinstance(each, tuple | list) else (each, each) for each in (window, stride))
    return image, window, stride, pad
