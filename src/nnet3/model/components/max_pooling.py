"""MaxpoolingComponent: the largest elements of boxes in a three-dimensional image."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from nnet3.model.components.base import Component, Properties
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Check, Field, at_most
from nnet3.model.components.value_kinds import SIZE, Values

_MOST_COLUMNS = 2**31 - 1
_LEAST = -1e20


def _fits(axis: str) -> Check:
    """Returns the check that the step of boxes leads from the first to the last position of an axis."""

    def check(step: int, values: Values) -> str:
        dim, size = values[f"input_{axis}_dim"], values[f"pool_{axis}_size"]
        if step > size:
            return f"must be <= pool-{axis}-size={size}, got {step}"
        wanted = f"must divide input-{axis}-dim - pool-{axis}-size = {dim - size}"
        return f"{wanted}, got {step}" if (dim - size) % step else ""

    return check


def _fault_of_volume(z_dim: int, values: Values) -> str:
    volume = values["input_x_dim"] * values["input_y_dim"] * z_dim
    return f"times the other input dimensions must fit 32 bits, got {volume}" if volume > _MOST_COLUMNS else ""


@register
class MaxpoolingComponent(Component):
    """The largest element of each of a grid of boxes in an (x, y, z) image, z moving fastest in both.

    Every element that equals the largest of its box receives the whole derivative.
    """

    properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_NEEDS_OUTPUT

    fields = (
        Field("input_x_dim", SIZE),
        Field("input_y_dim", SIZE),
        Field("input_z_dim", SIZE, check=_fault_of_volume),
        *(Field(f"pool_{axis}_size", SIZE, check=at_most(f"input_{axis}_dim")) for axis in "xyz"),
        *(Field(f"pool_{axis}_step", SIZE, check=_fits(axis)) for axis in "xyz"),
    )
    heading = tuple(field.name for field in fields)

    def __init__(self, input_dims: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]):
        super().__init__()
        self.input_dims, self.sizes, self.steps = input_dims, sizes, steps
        axes = zip(input_dims, sizes, steps, strict=True)
        self.num_pools = tuple(1 + (dim - size) // step for dim, size, step in axes)
        self.input_dim, self.output_dim = math.prod(input_dims), math.prod(self.num_pools)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        numbers = tuple(values[field.name] for field in cls.fields)
        component = cls(numbers[:3], numbers[3:6], numbers[6:])
        component.__dict__.update(values)
        return component

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        boxes = x.unflatten(1, self.input_dims)
        for axis in range(3):
            boxes = boxes.unfold(1 + axis, self.sizes[axis], self.steps[axis])
        torch.amax(boxes, (4, 5, 6), out=y.unflatten(1, self.num_pools))  # of (rows, *num_pools, *sizes)
        y.clamp_min_(_LEAST)

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        x_deriv.zero_()
        largest, g = (matrix.unflatten(1, self.num_pools)[..., None, None, None] for matrix in (y, y_deriv))
        for parts, deriv_parts in zip(self._disjoint_parts(x), self._disjoint_parts(x_deriv), strict=True):
            deriv_parts.add_((parts == largest) * g)

    def _disjoint_parts(self, matrix: Tensor) -> Iterator[Tensor]:
        """Cuts all boxes into parts no longer than the step, so that parts of different boxes do not overlap.

        Yields one view (rows, *num_pools, x, y, z) for each position of a part in the box.
        """
        image = matrix.unflatten(1, self.input_dims)
        for begins in product(*(range(0, size, step) for size, step in zip(self.sizes, self.steps, strict=True))):
            view = image
            for axis, begin in enumerate(begins):
                step, count = self.steps[axis], self.num_pools[axis]
                length = min(step, self.sizes[axis] - begin)
                view = view.narrow(1 + axis, begin, (count - 1) * step + length).unfold(1 + axis, length, step)
            yield view
