"""BatchNormComponent: columns normalised over the rows of a minibatch, or by statistics."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from nnet3.components.base import Component, Deriv, Properties, Updated
from nnet3.components.field_table import Field, Same, divisor_of, value_of
from nnet3.components.kinds import BOOLEAN, POSITIVE, SIZE, NumberKind, Vector
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.row_sums import rows_are_divided, sum_and_count
from nnet3.components.state import ComponentState
from nnet3.components.summary import summarize_vector
from nnet3.text import ConfigLine
from nnet3.text.values import at_least

if TYPE_CHECKING:
    from typing_extensions import Self


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
    if component.count <= 0:
        return ""
    text = f", data-mean={summarize_vector(component.stats_mean.cpu())}"
    return text + f", data-stddev={summarize_vector(component.stats_var.clamp(min=0.0).sqrt().cpu())}"


@register
class BatchNormComponent(Component):
    """Scale and shift of each of block_dim columns to mean 0 and root mean square (nearly) target_rms.

    In training by the mean and variance of the minibatch, in test mode by those of all rows that `store_stats` saw.
    Statistics: `count` rows; `stats_sum`, `stats_sumsq` (block_dim), sums of x and of its square.
    """

    statistic_names = ("count", "stats_sum", "stats_sumsq")
    has_running_statistics = True

    fields = (
        Field("dim", SIZE),
        Field("block_dim", SIZE, default=Same("dim"), check=divisor_of("dim")),
        Field("epsilon", POSITIVE, default=1e-3),
        Field("target_rms", POSITIVE, default=1.0),
        Field("test_mode", BOOLEAN, default=False),
        Field("count", NumberKind(at_least(0), double=True), None),
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
        self._affine: tuple[tuple[object, ...], Tensor, Tensor] | None = None

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
            mean, count = values["stats_mean"], component.count
            component.stats_sum = mean * count
            component.stats_sumsq = (values["stats_var"] + mean.square()) * count
        return component

    @property
    def stats_mean(self) -> Tensor:
        """The mean of all rows stored, (block_dim,)."""
        return self.stats_sum / (self.count or 1.0)

    @property
    def stats_var(self) -> Tensor:
        """The variance of all rows stored, (block_dim,), not floored."""
        return self.stats_sumsq / (self.count or 1.0) - (self.stats_mean.square() if self.count else 0.0)

    def _rows(self, matrix: Tensor) -> Tensor:
        """Returns a matrix as (rows * blocks, block_dim); a copy if its rows are not contiguous."""
        return matrix.contiguous().view(-1, self.block_dim)

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> BatchNormMemo | None:
        if self.test_mode:
            scale, offset = self.scale_and_offset(x)
            torch.addcmul(offset, x, scale, out=y)
            return None
        # y = (x - mean) scale with scale = tau / sqrt(variance + epsilon). The fused kernel takes x scale - mean scale
        # from plainly accumulated sums: in deep networks with few rows its rounding shows. Here the sums are pairwise
        # and the variance is that of what is left after subtracting the mean.
        rows = self._rows(x)
        mean = _mean_over_rows(rows)
        centred = torch.sub(rows, mean, out=y.view(-1, self.block_dim)) if y.is_contiguous() else rows - mean
        variance = _mean_over_rows(torch.square(centred))
        scale = (variance + self.epsilon).rsqrt_().mul_(self.target_rms)
        centred.mul_(scale)
        if not y.is_contiguous():
            y.copy_(centred.view(y.shape))
        return BatchNormMemo(rows.shape[0], mean, variance, scale)

    def scale_and_offset(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Returns scale and offset of test mode, (dim) each, with the dtype and on the device of `like`.

        They are kept until the statistics or settings change.
        """
        made_of = (like.dtype, like.device, *self._made_of())
        if self._affine is not None and self._affine[0] == made_of:
            return self._affine[1:]
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
        self._affine = (made_of, *result)
        return result

    def replay_state(self) -> list[object] | None:
        if not self.test_mode:
            return super().replay_state()
        if any(tensor.is_inference() for tensor in (self.stats_sum, self.stats_sumsq)):
            return None  # nobody counts what is done to them
        return [*vars(self).values(), self.stats_sum._version, self.stats_sumsq._version]

    def _made_of(self) -> tuple[object, ...]:
        """Changes with the statistics and settings: PyTorch counts what is done to a tensor in place."""
        tensors = (self.stats_sum, self.stats_sumsq)
        versions = [tuple(t.tolist()) if t.is_inference() else (id(t), t._version) for t in tensors]
        return self.block_dim, self.epsilon, self.target_rms, self.count, *versions

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        if x_deriv is None:
            return
        if memo is None:
            torch.mul(y_deriv, self.scale_and_offset(y_deriv)[0], out=x_deriv)
            return
        if rows_are_divided():
            y_rows, g = self._rows(y), self._rows(y_deriv)
            means = _mean_over_rows(torch.cat([g, y_rows * g], dim=1))
            of_g, of_product = means[: self.block_dim], means[self.block_dim :] / self.target_rms**2
            x_deriv.copy_(((g - of_g - y_rows * of_product) * memo.scale).view(x_deriv.shape))
            return
        # g_x = scale (g_y - mean(g_y)) - scale / tau^2 mean(y g_y) y: with input y, mean 0, inverse standard
        # deviation 1 / tau and weight tau scale that is what the kernel computes, in two passes over y and g_y.
        zero, inverse = torch.zeros_like(memo.mean), torch.full_like(memo.mean, 1.0 / self.target_rms)
        derivative, _, _ = torch.ops.aten.native_batch_norm_backward(
            self._rows(y_deriv),
            self._rows(y),
            memo.scale * self.target_rms,
            None,
            None,
            zero,
            inverse,
            True,
            self.epsilon,
            [True, False, False],
        )
        x_deriv.copy_(derivative.view(x_deriv.shape))

    # ---- statistics: whatever changes them makes test mode's scale and offset stale ----

    def store_stats(self, x: Tensor, y: Tensor, memo: BatchNormMemo) -> None:
        mean, variance = memo.mean.double(), memo.variance.double()
        self.stats_sum.add_(mean, alpha=memo.num_rows)
        self.stats_sumsq.add_(variance.addcmul_(mean, mean), alpha=memo.num_rows)
        self.count += memo.num_rows
        self._affine = None

    def set_test_mode(self, test_mode: bool) -> None:
        """Normalise by the stored statistics (True) or by those of each minibatch (False)."""
        self.test_mode = test_mode
        self._affine = None

    def scale_stats_(self, scale: float) -> None:
        super().scale_stats_(scale)
        self._affine = None

    def add_stats_(self, alpha: float, other: ComponentState) -> None:
        super().add_stats_(alpha, other)
        self._affine = None

    def zero_stats(self) -> None:
        """Forget the statistics, except in test mode, which protects them."""
        if not self.test_mode:
            super().zero_stats()


def _mean_over_rows(matrix: Tensor) -> Tensor:
    """Returns the mean of each column over the rows of all processes."""
    if not rows_are_divided():
        return matrix.mean(0)
    total, count = sum_and_count(matrix.sum(0), matrix.shape[0])
    return total / max(count, 1)
