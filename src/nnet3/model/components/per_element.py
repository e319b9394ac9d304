"""Types with a scale or an offset for each column: y = s o x, y = x + o and y = s o x + o."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import Self

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.native import operations
from nnet3.base.native.operations import Operations
from nnet3.base.text import ConfigLine
from nnet3.model.components.base import Deriv, Properties, UpdatableComponent, Updated
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import (
    Field,
    Shown,
    Summary,
    least_and_most,
    length_of,
    mean_stddev,
    multiple_of_length,
    obsolete,
)
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.updatable import (
    ALPHA,
    NUM_SAMPLES_HISTORY,
    OLD_IS_GRADIENT,
    RANK,
    UPDATE_PERIOD,
    OnePreconditioner,
    Setting,
)
from nnet3.model.components.value_kinds import BOOLEAN, REAL, SIZE, VECTOR, Values, Vector, load_vector_key


@register
class PerElementScaleComponent(UpdatableComponent):
    """Plain gradient. Parameter: params (dim,), the scales."""

    is_linear = True
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

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        return operations.multiply(y, x, self.params)

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
        self.add_rows(self.params, gradients, self.preconditioner)


def initial_vector(
    line: ConfigLine, rng: RandomSource, dim: int, mean: float, prefix: str = "param", stddev: float = 0.0
) -> Tensor:
    """Draws normal numbers (dim,) by the keys PREFIX-mean (default `mean`) and PREFIX-stddev (default `stddev`)."""
    mean = line.number(f"{prefix}-mean", mean)
    return rng.normal_tensor(dim) * line.number(f"{prefix}-stddev", stddev, minimum=0.0) + mean


@register
class PerElementOffsetComponent(UpdatableComponent):
    """The same offsets for each block of the row. Parameter: offsets (block_dim,), where block_dim divides dim."""

    is_linear = True
    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.IN_PLACE
    parameter_names = ("offsets",)
    preconditioner_names = ("preconditioner",)
    can_freeze = False

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
        self.add_rows(self.offsets, gradients, self.preconditioner if self.use_natural_gradient else None)

    def _by_block(self, matrix: Tensor) -> Tensor:
        """Returns (rows, dim) as (rows, blocks, block_dim), a view."""
        return matrix.unflatten(1, (-1, len(self.offsets)))


def block_dim_of(line: ConfigLine, dim: int) -> int:
    """Returns the key `block-dim`, which is `dim` by default and must divide it."""
    block_dim = line.integer("block-dim", dim, minimum=1)
    if dim % block_dim != 0:
        raise line.error(f"'block-dim' must divide 'dim', but {dim} is no multiple of {block_dim}", "block-dim")
    return block_dim


_LEAST_SCALE = 1e-4  # x is recovered from y by dividing by the scales


def _fault_of_block(scales: Tensor, values: Values) -> str:
    dim = values["dim"]
    return f"has {len(scales)} elements, of which <Dim> {dim} is no multiple" if dim % len(scales) else ""


def _block_info(component: ScaleAndOffsetComponent) -> str:
    size = len(component.scales)
    return "" if size == component.input_dim else f", block-size={size}"


@register
class ScaleAndOffsetComponent(UpdatableComponent):
    """The same scales and offsets for each block of the row.

    Parameters: scales (block_dim,), offsets (block_dim,), where block_dim divides dim. As in Kaldi, natural-gradient
    estimates change in each 4th minibatch; in a component read from a file, in every minibatch.
    """

    is_linear = True
    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.IN_PLACE
    parameter_names = ("scales", "offsets")
    preconditioner_names = ("scale_preconditioner", "offset_preconditioner")
    can_freeze = False

    rank = Setting("rank", "scale_preconditioner", "offset_preconditioner")
    update_period = Setting("update_period", "scale_preconditioner", "offset_preconditioner")
    fields = (
        Field("dim", SIZE),
        Field("scales", VECTOR, None, check=_fault_of_block),
        Field("offsets", Vector(length_of("scales")), None),
        Field("use_natural_gradient", BOOLEAN, default=True),
        Field("rank", SIZE, default=20),
    )
    shown = ("rank", _block_info, Summary(mean_stddev, "scales"), Summary(mean_stddev, "offsets"))

    def __init__(self, scales: Tensor, offsets: Tensor, dim: int) -> None:
        super().__init__()
        self.scales = scales
        self.offsets = offsets
        self.input_dim = self.output_dim = dim
        self.use_natural_gradient = True
        self.scale_preconditioner = OnlineNaturalGradient(rank=20, update_period=4)
        self.offset_preconditioner = OnlineNaturalGradient(rank=20, update_period=4)

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        dim = line.integer("dim", minimum=1)
        block_dim = block_dim_of(line, dim)
        return {"dim": dim, "scales": torch.ones(block_dim), "offsets": torch.zeros(block_dim)}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        component = super().read(reader)
        component.update_period = 1
        return component

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        torch.addcmul(self.offsets, self._by_block(x), self.safe_scales(), out=self._by_block(y))

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        if to_update is not None:  # first, because x_deriv may be the memory of y_deriv
            assert isinstance(to_update, ScaleAndOffsetComponent)
            x_hat = (self._by_block(y) - self.offsets).div_(self.safe_scales())
            to_update.update(x_hat.mul_(self._by_block(y_deriv)), self._by_block(y_deriv))
        if x_deriv is not None:
            torch.mul(self._by_block(y_deriv), self.scales, out=self._by_block(x_deriv))

    def update(self, scale_gradients: Tensor, offset_gradients: Tensor) -> None:
        """s += rate c sum of the rows of M', with (M', c) = PD(x o g), and o likewise with PD(g)."""
        for tensor, gradients, preconditioner in (
            (self.scales, scale_gradients, self.scale_preconditioner),
            (self.offsets, offset_gradients, self.offset_preconditioner),
        ):
            rows = gradients.reshape(-1, len(tensor))
            self.add_rows(tensor, rows, preconditioner if self.use_natural_gradient else None)

    def safe_scales(self) -> Tensor:
        """Returns the scales with those near zero moved to +-1e-4."""
        least = torch.where(self.scales < 0, -_LEAST_SCALE, _LEAST_SCALE).to(self.scales)
        return torch.where(self.scales.abs() < _LEAST_SCALE, least, self.scales)

    def _by_block(self, matrix: Tensor) -> Tensor:
        """Returns (rows, dim) as (rows, blocks, block_dim), a view."""
        return matrix.unflatten(1, (-1, len(self.scales)))
