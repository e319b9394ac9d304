"""Convolution and pooling of images as nnet3 components, whose rows lie as ours: x down, y across, channels fastest."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nnet3.cn.nodes.convolution import Convolution
from nnet3.cn.nodes.windows import ImageOperation


def average_kernels(operation: ImageOperation) -> Tensor:
    """The kernels, (channels, K_r K_c channels), whose convolution is average pooling."""
    pixels = operation.window[0] * operation.window[1]
    return torch.eye(operation.image[2]).tile(1, pixels) / pixels


def convolution_config(operation: ImageOperation, num_filters: int) -> str:
    """The component line; kernels with gaps become wider ones with zeros."""
    return (
        f"ConvolutionComponent {_dims(operation)} filt-x-dim={operation.extent[0]} "
        f"filt-y-dim={operation.extent[1]} filt-x-step={operation.stride[0]} filt-y-step={operation.stride[1]} "
        f"num-filters={num_filters} input-vectorization-order=zyx"
    )


def convolution_parameters(operation: ImageOperation, kernels: Tensor, bias: Tensor | None) -> dict[str, Tensor]:
    """The parameters of the component, of kernels (output channels, K_r K_c C_x)."""
    pixels = kernels.unflatten(1, (*operation.window, operation.image[2]))
    wide = kernels.new_zeros(len(kernels), *operation.extent, operation.image[2])
    down, across = operation.dilation if isinstance(operation, Convolution) else (1, 1)
    wide[:, ::down, ::across] = pixels
    return {
        "filter_params": wide.flatten(1),
        "bias_params": torch.zeros_like(kernels[:, 0]) if bias is None else bias,
    }


def pooling_config(operation: ImageOperation) -> str:
    window, stride = operation.window, operation.stride
    return (
        f"MaxpoolingComponent {_dims(operation)} pool-x-size={window[0]} pool-y-size={window[1]} pool-z-size=1 "
        f"pool-x-step={stride[0]} pool-y-step={stride[1]} pool-z-step=1"
    )


def _dims(operation: ImageOperation) -> str:
    rows, cols = framed_size(operation)
    return f"input-x-dim={rows} input-y-dim={cols} input-z-dim={operation.image[2]}"


def framed_size(operation: ImageOperation) -> tuple[int, int]:
    """Rows and columns that the windows touch, margins included: the last pixels may be left over."""
    sizes: Any = zip(operation.value_size, operation.extent, operation.stride, strict=True)
    rows, cols = ((number - 1) * stride + window for number, window, stride in sizes)
    return rows, cols


def framed_rows(operation: ImageOperation) -> list[tuple[int, int, int, int]]:
    """Each row that the windows touch: the first element and the number of those taken of the image, and the zeros
    before and after. Empty where the windows touch the image as it is.
    """
    (rows, cols), (down, across) = framed_size(operation), operation.margins
    height, width, channels = operation.image
    if (rows, cols) == (height, width) and not down and not across:
        return []
    taken = min(width, cols - across)
    found = []
    for row in range(rows):
        inside = 0 <= row - down < height
        first, count = ((row - down) * width * channels, taken * channels) if inside else (0, 0)
        before = across * channels if inside else cols * channels
        found.append((first, count, before, cols * channels - before - count))
    return found
