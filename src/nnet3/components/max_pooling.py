"""MaxpoolingComponent (components.md 4.10)."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import read_integer
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine

_MOST_COLUMNS = 2**31 - 1
_LEAST = -1e20
_KEYS = (
    *(f"input-{axis}-dim" for axis in "xyz"),
    *(f"pool-{axis}-size" for axis in "xyz"),
    *(f"pool-{axis}-step" for axis in "xyz"),
)


def _token(key: str) -> str:
    return "<" + "".join(word.capitalize() for word in key.split("-")) + ">"


@register
class MaxpoolingComponent(Component):
    """The largest element of each of a grid of boxes in an (x, y, z) image, z moving fastest in both.

    Every element that equals the largest of its box receives the whole derivative.
    """

    type_name = "MaxpoolingComponent"
    properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_NEEDS_OUTPUT

    def __init__(self, input_dims: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]):
        super().__init__()
        self.input_dims, self.sizes, self.steps = input_dims, sizes, steps
        axes = zip(input_dims, sizes, steps, strict=True)
        self.num_pools = tuple(1 + (dim - size) // step for dim, size, step in axes)
        self.input_dim, self.output_dim = math.prod(input_dims), math.prod(self.num_pools)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        values = [line.integer(key, minimum=1) for key in _KEYS]
        complaint = _complaint(values)
        if complaint:
            index, message = complaint
            raise line.error(f"'{_KEYS[index]}' {message}", _KEYS[index])
        return cls(tuple(values[:3]), tuple(values[3:6]), tuple(values[6:]))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        values = []
        for key in _KEYS:
            reader.expect(_token(key))
            values.append(read_integer(reader, _token(key)))
        complaint = _complaint(values)
        if complaint:
            index, message = complaint
            raise reader.error(f"{_token(_KEYS[index])} {message}")
        reader.expect("</MaxpoolingComponent>")
        return cls(tuple(values[:3]), tuple(values[3:6]), tuple(values[6:]))

    def write_body(self, writer: Writer) -> None:
        for key, value in zip(_KEYS, self._values(), strict=True):
            writer.token(_token(key))
            writer.int32(value)

    def _values(self) -> tuple[int, ...]:
        return (*self.input_dims, *self.sizes, *self.steps)

    def info(self) -> str:
        values = (f"{key}={value}" for key, value in zip(_KEYS, self._values(), strict=True))
        return f"{self.type_name}, {', '.join(values)}"

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        boxes = x.unflatten(1, self.input_dims)
        for axis in range(3):
            boxes = boxes.unfold(1 + axis, self.sizes[axis], self.steps[axis])
        torch.amax(boxes, (4, 5, 6), out=y.unflatten(1, self.num_pools))  # of (rows, *num_pools, *sizes)
        y.clamp_min_(_LEAST)

    def backward(
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: None,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: None = None,
    ) -> None:
        if x_deriv is None:
            return
        x_deriv.zero_()
        largest, g = (matrix.unflatten(1, self.num_pools)[..., None, None, None] for matrix in (y, y_deriv))
        for parts, deriv_parts in zip(self._disjoint_parts(x), self._disjoint_parts(x_deriv), strict=True):
            deriv_parts.add_((parts == largest) * g)

    def _disjoint_parts(self, matrix: Tensor) -> Iterator[Tensor]:
        """Cut all boxes into parts no longer than the step, so that parts of different boxes do not overlap.

        Yields one view (rows, *num_pools, x, y, z) for each place of a part in the box.
        """
        image = matrix.unflatten(1, self.input_dims)
        for begins in product(*(range(0, size, step) for size, step in zip(self.sizes, self.steps, strict=True))):
            view = image
            for axis, begin in enumerate(begins):
                step, count = self.steps[axis], self.num_pools[axis]
                length = min(step, self.sizes[axis] - begin)
                view = view.narrow(1 + axis, begin, (count - 1) * step + length).unfold(1 + axis, length, step)
            yield view


def _complaint(values: list[int]) -> tuple[int, str] | None:
    """What is wrong with the nine settings: the number of the one at fault and the message."""
    for axis in range(3):
        dim, size, step = values[axis::3]
        if size > dim:
            return 3 + axis, f"must be <= {_KEYS[axis]}={dim}, got {size}"
        if step > size:
            return 6 + axis, f"must be <= {_KEYS[3 + axis]}={size}, got {step}"
        if (dim - size) % step != 0:
            return 6 + axis, f"must divide {_KEYS[axis]} - {_KEYS[3 + axis]} = {dim - size}, got {step}"
    if math.prod(values[:3]) > _MOST_COLUMNS:
        return 0, f"times the other input dimensions must fit 32 bits, got {math.prod(values[:3])}"
    return None
