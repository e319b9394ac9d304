"""Types with a scale or an offset for each column: y = s o x and y = x + o."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.components.base import Deriv, Properties, Updated
from nnet3.components.field_table import Field, Shown, Summary, multiple_of_length, obsolete
from nnet3.components.kinds import BOOLEAN, REAL, SIZE, VECTOR, load_vector_key
from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.natural_gradient_settings import (
    ALPHA,
    NUM_SAMPLES_HISTORY,
    RANK,
    UPDATE_PERIOD,
    OnePreconditioner,
)
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.summary import least_and_most, mean_stddev
from nnet3.components.updatable import OLD_IS_GRADIENT, UpdatableComponent
from nnet3.text import ConfigLine


@register
class PerElementScaleComponent(UpdatableComponent):
    """Plain gradient. Parameter: params (dim,), the scales."""

    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT | Properties.IN_PLACE
    parameter_names = ("params",)

    fields: ClassVar[tuple[Field, ...]] = (Field("params", VECTOR, None), OLD_IS_GRADIENT)
    shown: ClassVar[Shown] = (Summary(least_and_most, "params", "scales"), Summary(mean_stddev, "params", "scales"))

    def __init__(self, params: Tensor) -> None:
        super().__init__()
        self.params = params
        self.input_dim = self.output_dim = len(params)

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        if not line.has("vector"):
            return {"params": initial_vector(line, rng, line.integer("dim", minimum=1), 1.0)}
        params = load_vector_key(line, "vector")
        dim = line.integer("dim", len(params), minimum=1)
        if dim != len(params):
            raise line.error(f"'dim' is {dim}, but the vector has {len(params)} elements", "dim")
        return {"params": params}

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        torch.mul(x, self.params, out=y)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        if to_update is not None:  # first, because x_deriv may be the memory of y_deriv
            assert isinstance(to_update, PerElementScaleComponent)
            to_update.update(x * y_deriv)
        if x_deriv is not None:
            torch.mul(y_deriv, self.params, out=x_deriv)

    def update(self, gradients: Tensor) -> None:
        """s += rate sum_n x o g; `gradients` holds the x o g of each row."""
        self.params.add_(gradients.sum(0), alpha=self.learning_rate)


@register
class NaturalGradientPerElementScaleComponent(OnePreconditioner, PerElementScaleComponent):
    """Natural gradient whose directions are the rows x o g. Parameter: params (dim,), the scales."""

    fields = (
        PerElementScaleComponent.fields[0],
        replace(OLD_IS_GRADIENT, saved=True),
        RANK,
        UPDATE_PERIOD,
        NUM_SAMPLES_HISTORY,
        ALPHA,
        *obsolete(REAL, "<MaxChangePerMinibatch>"),
    )
    shown = (*PerElementScaleComponent.shown, "rank", "update_period", "num_samples_history", "alpha")

    def __init__(self, params: Tensor) -> None:
        super().__init__(params)
        self.preconditioner = OnlineNaturalGradient(rank=8, update_period=10)

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        if line.has("scales"):
            return {"params": load_vector_key(line, "scales")}
        return {"params": initial_vector(line, rng, line.integer("dim", minimum=1), 1.0)}

    def update(self, gradients: Tensor) -> None:
        """s += rate c sum_n of the rows of E' with (E', c) = PD(X o G)."""
        rate = self.learning_rate
        if not self.is_gradient:
            gradients, scale = self.preconditioner.precondition(gradients)
            rate *= float(scale)
        self.params.add_(gradients.sum(0), alpha=rate)


def initial_vector(
    line: ConfigLine, rng: RandomSource, dim: int, mean: float, prefix: str = "param", stddev: float = 0.0
) -> Tensor:
    """Normal numbers (dim,) by the keys PREFIX-mean and PREFIX-stddev, which have these defaults."""
    mean = line.number(f"{prefix}-mean", mean)
    return rng.normal_tensor(dim) * line.number(f"{prefix}-stddev", stddev, minimum=0.0) + mean


@register
class PerElementOffsetComponent(UpdatableComponent):
    """The same offsets for each block of the row. Parameter: offsets (block_dim,), where block_dim divides dim."""

    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.IN_PLACE
    parameter_names = ("offsets",)
    preconditioner_names = ("preconditioner",)

    fields = (
        Field("offsets", VECTOR, None),
        OLD_IS_GRADIENT,
        Field("dim", SIZE, optional=True, check=multiple_of_length("offsets")),
        Field("use_natural_gradient", BOOLEAN, default=True, optional="dim"),
    )
    shown = (
        Summary(least_and_most, "offsets"),
        "block_dim",
        "use_natural_gradient",
        Summary(mean_stddev, "offsets"),
    )

    def __init__(self, offsets: Tensor, dim: int | None = None) -> None:
        super().__init__()
        self.offsets = offsets
        self.input_dim = self.output_dim = dim or len(offsets)
        self.use_natural_gradient = True
        self.preconditioner = OnlineNaturalGradient(rank=20, update_period=4)

    @property
    def block_dim(self) -> int:
        return len(self.offsets)

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        if not line.has("vector"):
            dim = line.integer("dim", minimum=1)
            return {"dim": dim, "offsets": initial_vector(line, rng, block_dim_of(line, dim), 0.0)}
        offsets = load_vector_key(line, "vector")
        dim = line.integer("dim", len(offsets), minimum=1)
        if dim % len(offsets) != 0:
            raise line.error(f"'dim' must be a multiple of the vector's {len(offsets)} elements, got {dim}", "dim")
        return {"dim": dim, "offsets": offsets}

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        torch.add(self._by_block(x), self.offsets, out=self._by_block(y))

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        if to_update is not None:
            assert isinstance(to_update, PerElementOffsetComponent)
            to_update.update(y_deriv)
        if x_deriv is not None:
            x_deriv.copy_(y_deriv)

    def update(self, y_deriv: Tensor) -> None:
        """o += rate c sum of the rows of G', with (G', c) = PD(G), G reshaped to rows of a block."""
        gradients = y_deriv.reshape(-1, len(self.offsets))
        rate = self.learning_rate
        if self.use_natural_gradient and not self.is_gradient:
            gradients, scale = self.preconditioner.precondition(gradients)
            rate *= float(scale)
        self.offsets.add_(gradients.sum(0), alpha=rate)

    def _by_block(self, matrix: Tensor) -> Tensor:
        """(rows, dim) as (rows, blocks, block_dim), a view."""
        return matrix.unflatten(1, (-1, len(self.offsets)))


def block_dim_of(line: ConfigLine, dim: int) -> int:
    """The key `block-dim`, which is `dim` by default and must divide it."""
    block_dim = line.integer("block-dim", dim, minimum=1)
    if dim % block_dim != 0:
        raise line.error(f"'block-dim' must divide 'dim', but {dim} is no multiple of {block_dim}", "block-dim")
    return block_dim
