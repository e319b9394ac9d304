"""BatchNormComponent: columns normalised by a minibatch or statistics; NormalizeComponent: rows by their norms."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from typing_extensions import Self

from nnet3.base.native import layers, operations
from nnet3.base.native.operations import Operations
from nnet3.base.text import ConfigLine
from nnet3.model.components.base import Component, Properties
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Field, Same, divisor_of, summarize_vector, value_of
from nnet3.model.components.nonlinearity import BLOCK_DIM, old_statistics
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.row_sums import blocks_of_rows, rows_are_divided, sum_and_count, sum_of_rows, type_of_sums
from nnet3.model.components.state import ComponentState
from nnet3.model.components.value_kinds import BOOLEAN, POSITIVE, SIZE, NumberKind, Vector

_FLOOR = 2.0**-66  # of the mean square relative to the target


@register
class NormalizeComponent(Component):
    """y = f x with f = (|x|^2 / (d target_rms^2))^(-1/2), for each block of d = block_dim columns.

    With add_log_stddev each output block has one more element, log(|x| / sqrt(d)).
    """

    fields = (
        Field("dim", SIZE, token="<InputDim>", old_token="<Dim>"),
        BLOCK_DIM,
        Field("target_rms", POSITIVE, default=1.0, optional=True),
        Field("add_log_stddev", BOOLEAN, default=False, optional=True),
        *old_statistics()[:3],
    )
    shown = ("target_rms", "add_log_stddev", "block_dim")

    def __init__(self, dim: int, block_dim: int | None = None, target_rms: float = 1.0, add_log_stddev: bool = False):
        super().__init__()
        self.input_dim = dim
        self.block_dim = block_dim = dim if block_dim is None else block_dim
        self.target_rms = target_rms
        self.add_log_stddev = add_log_stddev
        self.output_dim = dim + (dim // block_dim if add_log_stddev else 0)
        self.properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT
        if not add_log_stddev:
            self.properties |= Properties.IN_PLACE

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        key = "dim" if line.has("dim") or not line.has("input-dim") else "input-dim"
        return {"dim": line.integer(key, minimum=1)}

    # In both passes p = |x|^2 / (d target_rms^2) is the relative mean square of a block, f = max(p, floor)^(-1/2).

    def _blocks(self, matrix: Tensor) -> Tensor:
        """Returns a matrix seen as (rows, blocks, columns of a block)."""
        return matrix.unflatten(1, (self.input_dim // self.block_dim, -1))

    def _relative_mean_square(self, blocks: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(blocks, dim=2, keepdim=True)  # (rows, blocks, 1)
        return norm.mul_(1.0 / (math.sqrt(self.block_dim) * self.target_rms)).square_()

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        if self.output_dim == self.block_dim and layers.normalize_rows(y, x, self.target_rms):
            return
        if self.output_dim > self.block_dim:
            x, y = self._blocks(x), self._blocks(y)
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        root = norm.mul_(1.0 / (math.sqrt(self.block_dim) * self.target_rms)).clamp_min_(math.sqrt(_FLOOR))  # 1 / f
        if not self.add_log_stddev:
            torch.div(x, root, out=y)
            return
        torch.div(x, root, out=y[:, :, : self.block_dim])
        torch.add(root.log_(), math.log(self.target_rms), out=y[:, :, self.block_dim :])

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        return operations.normalize(y, x, self.target_rms) if self.output_dim == self.block_dim else None

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        # g_x = f g_y - c (g_y . x) / (d target_rms^2) x, where c = f^3, or 0 where f was floored;
        # with the extra element's derivative g_l: + g_l x / max(|x|^2, d floor)
        size = self.block_dim * self.target_rms**2
        if self.output_dim == self.block_dim and layers.normalize_rows_backward(x_deriv, x, y_deriv, size, _FLOOR):
            return
        x_blocks, g, x_deriv_blocks = self._blocks(x), self._blocks(y_deriv), self._blocks(x_deriv)
        p = self._relative_mean_square(x_blocks)
        f = p.clamp_min(_FLOOR).rsqrt_()
        dot = (g[:, :, : self.block_dim] * x_blocks).sum(2, keepdim=True)
        coefficient = dot.mul_((f**3).masked_fill_(p <= _FLOOR, 0.0)).mul_(-1.0 / size)
        if self.add_log_stddev:
            coefficient.addcdiv_(g[:, :, self.block_dim :], (p * size).clamp_min_(self.block_dim * _FLOOR))
        torch.mul(g[:, :, : self.block_dim], f, out=x_deriv_blocks)
        x_deriv_blocks.addcmul_(x_blocks, coefficient)


class BatchNormMemo(NamedTuple):
    """Rows (times blocks) of a minibatch; mean, variance and target_rms / sqrt(variance + epsilon) of each column.

    Where processes share the minibatch (row_sums.py), columns' numbers are over all rows; `num_rows` counts those here.
    """

    num_rows: int
    mean: Tensor
    variance: Tensor
    scale: Tensor


_STATISTIC = Vector(value_of("block_dim"), statistic=True)


def _data_info(component: BatchNormComponent) -> str:
    """Computes in float32, as Kaldi does: where the mean is large, few digits of the deviation are left."""
    if component.count <= 0:
        return ""
    sums = (component.stats_sum, component.stats_sumsq)
    mean, square = (total.cpu().float() * (1.0 / component.count) for total in sums)
    stddev = (square - mean * mean).clamp_(min=0.0).sqrt_()
    return f", data-mean={summarize_vector(mean)}, data-stddev={summarize_vector(stddev)}"


@register
class BatchNormComponent(Component):
    """Scale and shift of each of block_dim columns to mean 0 and root mean square (nearly) target_rms.

    In training by the mean and variance of the minibatch, in test mode by those of all rows that `store_stats` saw.
    Statistics: `count` rows; `stats_sum`, `stats_sumsq` (block_dim), sums of x and of its square.
    """

    statistic_names = ("count", "stats_sum", "stats_sumsq")
    has_running_statistics = True
    backprop_takes_input = repeats_forward = True

    fields = (
        Field("dim", SIZE),
        Field("block_dim", SIZE, default=Same("dim"), check=divisor_of("dim")),
        Field("epsilon", POSITIVE, default=1e-3),
        Field("target_rms", POSITIVE, default=1.0),
        Field("test_mode", BOOLEAN, default=False),
        Field("count", NumberKind(double=True), None),  # below 0 in a model that was scaled by a number below 0
        Field("stats_mean", _STATISTIC, None),
        Field("stats_var", _STATISTIC, None),
    )
    heading = ("dim",)
    shown = ("block_dim", "epsilon", "target_rms", "count", "test_mode", _data_info)

    def __init__(
        self, dim: int, block_dim: int, epsilon: float = 1e-3, target_rms: float = 1.0, test_mode: bool = False
    ):
        super().__init__()
        self.input_dim = self.output_dim = dim
        self.block_dim = block_dim
        self.epsilon = epsilon
        self.target_rms = target_rms
        self.test_mode = test_mode
        self.count = 0.0
        self.stats_sum = torch.zeros(block_dim, dtype=torch.float64)
        self.stats_sumsq = torch.zeros(block_dim, dtype=torch.float64)
        self._affine: tuple[tuple[object, ...], tuple[Tensor, ...], Tensor, Tensor] | None = None

    @property
    def rows_apart(self) -> bool:
        return self.test_mode

    @property
    def is_linear(self) -> bool:
        return self.test_mode

    @property
    def properties(self) -> Properties:  # type: ignore[override]
        common = Properties.SIMPLE | Properties.IN_PLACE | Properties.BACKPROP_NEEDS_OUTPUT
        return common if self.test_mode else common | Properties.USES_MEMO | Properties.STORES_STATS

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        return {} if line.integer("block-dim", -1) != -1 else {"block_dim": line.integer("dim", minimum=1)}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        settings = {name: value for name, value in values.items() if not name.startswith("stats_")}
        component = super().from_values(settings)
        if "stats_mean" in values:
            mean, count = values["stats_mean"].double(), component.count
            component.stats_sum = mean * count
            component.stats_sumsq = (values["stats_var"].double() + mean.square()) * count
        return component

    @property
    def stats_mean(self) -> Tensor:
        """The mean of all rows stored, (block_dim,)."""
        return self.stats_sum / (self.count or 1.0)

    @property
    def stats_var(self) -> Tensor:
        """The variance of all rows stored, (block_dim,), not floored."""
        return self.stats_sumsq / (self.count or 1.0) - (self.stats_mean.square() if self.count else 0.0)

    def _mean(self, sums: Tensor, num_rows: int) -> Tensor:
        """Returns the means (..., block_dim) over the rows of all processes; `sums` over those here are (..., dim)."""
        total, count = sum_and_count(self._of_block(sums), num_rows * (self.dim // self.block_dim))
        return total / max(count, 1)

    def _moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns mean and variance over the rows of all processes, (block_dim,) each."""
        rows, dtype = len(x) * (self.dim // self.block_dim), type_of_sums(x)
        total = layers.moments(x)
        if total is None:
            sums = x.sum(0, dtype=dtype)
            mean = sums / max(len(x), 1)
            squares = sum_of_rows(lambda some: (some - mean.to(x.dtype)).square(), x)
            if self.block_dim == self.dim and not rows_are_divided():
                return mean, squares / max(rows, 1)
            # Squares about the means of columns and processes make those about the mean of all (Chan, Golub, LeVeque
            # 1979, 2.1), whose digits float64 has where the mean is large.
            total = torch.stack([sums, squares]).double()
            total[1].addcmul_(total[0], mean.double())
        total, rows = sum_and_count(self._of_block(total), rows)
        mean, square = total / max(rows, 1)
        return mean.to(dtype), (square - mean.square()).clamp_(min=0.0).to(dtype)

    def _of_block(self, sums: Tensor) -> Tensor:
        """Returns sums over the blocks of (dim,), (block_dim,)."""
        return sums.unflatten(-1, (-1, self.block_dim)).sum(-2)

    def _columns(self, numbers: Tensor, like: Tensor) -> Tensor:
        """Repeats numbers of a block's columns, (block_dim,), for all blocks, (dim,)."""
        return numbers.to(like.dtype).repeat(self.dim // self.block_dim)

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> BatchNormMemo | None:
        if self.test_mode:
            scale, offset = self.scale_and_offset(x)
            torch.addcmul(offset, x, scale, out=y)
            return None
        # y = (x - mean) scale with scale = tau / sqrt(variance + epsilon). PyTorch's fused kernel computes x scale -
        # mean scale from plain sums: in deep networks with few rows its rounding shows. Here sums are pairwise, or of
        # float64, and the variance is computed after a mean is subtracted.
        rows = len(x) * (self.dim // self.block_dim)
        found = None if rows_are_divided() else layers.batch_norm(y, x, self.block_dim, self.epsilon, self.target_rms)
        if found is not None:
            return BatchNormMemo(rows, *found)
        mean, variance = self._moments(x)
        scale = (variance + self.epsilon).rsqrt_().mul_(self.target_rms)
        memo = BatchNormMemo(rows, mean, variance, scale)
        self.forward_again(x, y, memo)
        return memo

    def forward_again(self, x: Tensor, y: Tensor, memo: BatchNormMemo | None, indexes: None = None) -> None:
        if memo is None:
            self.forward(x, y)
            return
        mean, scale = self._columns(memo.mean, x), self._columns(memo.scale, x)
        if not layers.normalize_columns(y, x, mean, scale):
            for rows, normalized in blocks_of_rows(x, y):
                torch.sub(rows, mean, out=normalized).mul_(scale)

    def scale_and_offset(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Returns scale and offset of test mode, (dim) each, with the dtype and on the device of `like`.

        They are kept until the statistics or settings change.
        """
        tensors = self.stats_sum, self.stats_sumsq
        made_of = (like.dtype, like.device, *self._made_of())
        if self._affine is not None and self._affine[0] == made_of and all(map(operator.is_, self._affine[1], tensors)):
            return self._affine[2:]
        mean, variance = self.stats_mean, self.stats_var
        if self.count == 0:
            warnings.warn(
                "a batch-norm component in test mode has no statistics: it takes mean 0 and variance 1. "
                "This is right only for a network that was never trained.",
                RuntimeWarning,
                stacklevel=2,
            )
            mean, variance = torch.zeros_like(mean), torch.ones_like(variance)
        scale = (variance.clamp(min=0.0) + self.epsilon).rsqrt() * self.target_rms
        blocks = self.dim // self.block_dim
        result = scale.to(like).repeat(blocks), (-mean * scale).to(like).repeat(blocks)
        self._affine = (made_of, tensors, *result)
        return result

    def replay_state(self) -> list[object] | None:
        if not self.test_mode:
            return super().replay_state()
        if any(tensor.is_inference() for tensor in (self.stats_sum, self.stats_sumsq)):
            return None  # nobody counts what is done to them
        return [*vars(self).values(), self.stats_sum._version, self.stats_sumsq._version]

    def _made_of(self) -> tuple[object, ...]:
        """Changes with the settings and the numbers in the statistics: PyTorch counts what is done in place."""
        tensors = (self.stats_sum, self.stats_sumsq)
        versions = [tuple(t.tolist()) if t.is_inference() else t._version for t in tensors]
        return self.block_dim, self.epsilon, self.target_rms, self.count, *versions

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        if memo is None:
            torch.mul(y_deriv, self.scale_and_offset(y_deriv)[0], out=x_deriv)
            return
        # g_x = scale (g_y - mean(g_y) - mean(y g_y) / tau^2 y)
        values, of_block = (y, None) if len(y) else (x, memo.mean)
        if not rows_are_divided() and layers.batch_norm_deriv(
            x_deriv, values, y_deriv, of_block, memo.scale, self.target_rms
        ):
            return
        scale = self._columns(memo.scale, y_deriv)
        mean = None if of_block is None else self._columns(of_block, y_deriv)

        def output(rows: Tensor) -> Tensor:
            return rows if mean is None else torch.sub(rows, mean).mul_(scale)

        sums = layers.batch_norm_sums(values, y_deriv, mean, scale)
        if sums is None:
            products = sum_of_rows(lambda rows, g: torch.mul(output(rows), g), values, y_deriv)
            sums = torch.stack([y_deriv.sum(0, dtype=type_of_sums(y_deriv)), products])
        means, mean_products = self._mean(sums, len(y_deriv))
        of_g, of_product = self._columns(means, y_deriv), self._columns(mean_products / self.target_rms**2, y_deriv)
        if not layers.batch_norm_backward(x_deriv, values, y_deriv, mean, scale, of_g, of_product):
            for rows, g, derivative in blocks_of_rows(values, y_deriv, x_deriv):
                torch.sub(g, of_g, out=derivative).addcmul_(output(rows), of_product, value=-1).mul_(scale)

    # ---- statistics: whatever changes them makes test mode's scale and offset stale ----

    def store_stats(self, x: Tensor, y: Tensor, memo: BatchNormMemo) -> None:
        mean, variance = memo.mean.double(), memo.variance.double()
        self.stats_sum.add_(mean, alpha=memo.num_rows)
        self.stats_sumsq.add_(variance.addcmul_(mean, mean), alpha=memo.num_rows)
        self.count += memo.num_rows
        self._affine = None

    def set_test_mode(self, test_mode: bool) -> None:
        """Normalises by the stored statistics (True) or by those of each minibatch (False)."""
        self.test_mode = test_mode
        self._affine = None

    def scale_stats_(self, scale: float) -> None:
        super().scale_stats_(scale)
        self._affine = None

    def add_stats_(self, alpha: float, other: ComponentState) -> None:
        super().add_stats_(alpha, other)
        self._affine = None

    def zero_stats(self) -> None:
        """Forgets the statistics, except in test mode, which protects them."""
        if not self.test_mode:
            super().zero_stats()
