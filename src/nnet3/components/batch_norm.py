"""BatchNormComponent (components.md 3.2)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import read_integer, read_number, write_vector
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.summary import format_number, summarize_vector

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine


class BatchNormMemo(NamedTuple):
    """Of one minibatch: rows (times blocks); per column mean, variance and target_rms / sqrt(variance + epsilon)."""

    num_rows: int
    mean: Tensor
    variance: Tensor
    scale: Tensor


@register
class BatchNormComponent(Component):
    """Scale and shift of each of block_dim columns to mean 0 and root mean square (nearly) target_rms.

    In training by the mean and variance of the minibatch, in test mode by those of all rows that `store_stats` saw.
    Statistics: `count` rows; `stats_sum`, `stats_sumsq` (block_dim), sums of x and of its square.
    """

    type_name = "BatchNormComponent"
    statistic_names = ("count", "stats_sum", "stats_sumsq")
    has_running_statistics = True

    def __init__(
        self, dim: int, block_dim: int, epsilon: float = 1e-3, target_rms: float = 1.0, test_mode: bool = False
    ):
        super().__init__()
        self.input_dim = self.output_dim = self.dim = dim
        self.block_dim = block_dim
        self.epsilon = epsilon
        self.target_rms = target_rms
        self.test_mode = test_mode
        self.count = 0.0
        self.stats_sum = torch.zeros(block_dim, dtype=torch.float64)
        self.stats_sumsq = torch.zeros(block_dim, dtype=torch.float64)
        self._affine: tuple[Tensor, Tensor] | None = None

    @property
    def properties(self) -> Properties:  # type: ignore[override]
        common = (
            Properties.SIMPLE
            | Properties.PROPAGATE_IN_PLACE
            | Properties.BACKPROP_IN_PLACE
            | Properties.BACKPROP_NEEDS_OUTPUT
        )
        return common if self.test_mode else common | Properties.USES_MEMO | Properties.STORES_STATS

    # ---- configuration and files ----

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        dim = line.integer("dim", minimum=1)
        block_dim = line.integer("block-dim", -1)
        if block_dim == -1:
            block_dim = dim
        if block_dim <= 0 or dim % block_dim != 0:
            raise line.error(f"'block-dim' must divide dim={dim}, got {block_dim}", "block-dim")
        epsilon = line.number("epsilon", 1e-3, above=0.0)
        target_rms = line.number("target-rms", 1.0, above=0.0)
        return cls(dim, block_dim, epsilon, target_rms, line.boolean("test-mode", False))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        reader.expect("<Dim>")
        dim = read_integer(reader, "<Dim>")
        reader.expect("<BlockDim>")
        block_dim = read_integer(reader, "<BlockDim>")
        if dim % block_dim != 0:
            raise reader.error(f"<BlockDim> must divide the dimension {dim}, got {block_dim}")
        reader.expect("<Epsilon>")
        epsilon = read_number(reader, "<Epsilon>", above=0.0)
        reader.expect("<TargetRms>")
        target_rms = read_number(reader, "<TargetRms>", above=0.0)
        reader.expect("<TestMode>")
        test_mode = reader.boolean()
        reader.expect("<Count>")
        count = read_number(reader, "<Count>")
        reader.expect("<StatsMean>")
        mean = _read_statistic(reader, "<StatsMean>", block_dim)
        reader.expect("<StatsVar>")
        variance = _read_statistic(reader, "<StatsVar>", block_dim)
        reader.expect("</BatchNormComponent>")
        component = cls(dim, block_dim, epsilon, target_rms, test_mode)
        component.count = count
        component.stats_sum = mean * count
        component.stats_sumsq = (variance + mean.square()) * count
        return component

    def write_body(self, writer: Writer) -> None:
        writer.token("<Dim>")
        writer.int32(self.dim)
        writer.token("<BlockDim>")
        writer.int32(self.block_dim)
        writer.token("<Epsilon>")
        writer.real(self.epsilon)
        writer.token("<TargetRms>")
        writer.real(self.target_rms)
        writer.token("<TestMode>")
        writer.boolean(self.test_mode)
        writer.token("<Count>")
        writer.double(self.count)
        mean, variance = self.mean_and_variance()
        writer.token("<StatsMean>")
        write_vector(writer, mean)
        writer.token("<StatsVar>")
        write_vector(writer, variance)

    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        """Mean and (not floored) variance of all rows stored, (block_dim) each; the sums if there are none."""
        if self.count == 0:
            return self.stats_sum, self.stats_sumsq
        mean = self.stats_sum / self.count
        return mean, self.stats_sumsq / self.count - mean.square()

    def info(self) -> str:
        text = f"{self.type_name}, dim={self.dim}, block-dim={self.block_dim}, epsilon={format_number(self.epsilon)}"
        text += f", target-rms={format_number(self.target_rms)}, count={format_number(self.count)}"
        text += f", test-mode={'true' if self.test_mode else 'false'}"
        if self.count > 0:
            mean, variance = self.mean_and_variance()
            text += f", data-mean={summarize_vector(mean.cpu())}"
            text += f", data-stddev={summarize_vector(variance.clamp(min=0.0).sqrt().cpu())}"
        return text

    # ---- arithmetic ----

    def _rows(self, matrix: Tensor) -> Tensor:
        """A matrix seen as (rows * blocks, block_dim); a copy if its rows are not contiguous."""
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
        mean = rows.mean(0)
        centred = torch.sub(rows, mean, out=y.view(-1, self.block_dim)) if y.is_contiguous() else rows - mean
        variance = torch.square(centred).mean(0)
        scale = (variance + self.epsilon).rsqrt_().mul_(self.target_rms)
        centred.mul_(scale)
        if not y.is_contiguous():
            y.copy_(centred.view(y.shape))
        return BatchNormMemo(rows.shape[0], mean, variance, scale)

    def scale_and_offset(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """What test mode multiplies by and adds, (dim) each, with the dtype and on the device of `like`.

        They are kept until a method of this component changes the statistics.
        """
        cached = self._affine
        if cached is not None and cached[0].dtype == like.dtype and cached[0].device == like.device:
            return cached
        mean, variance = self.mean_and_variance()
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
        self._affine = (scale.to(like).repeat(blocks), (-mean * scale).to(like).repeat(blocks))
        return self._affine

    def backward(
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: BatchNormMemo | None,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: None = None,
    ) -> None:
        if x_deriv is None:
            return
        if memo is None:
            torch.mul(y_deriv, self.scale_and_offset(y_deriv)[0], out=x_deriv)
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

    def add_stats_(self, alpha: float, other: Component) -> None:
        super().add_stats_(alpha, other)
        self._affine = None

    def zero_stats(self) -> None:
        """Forget the statistics, except in test mode, which protects them."""
        if not self.test_mode:
            super().zero_stats()


def _read_statistic(reader: Reader, what: str, block_dim: int) -> Tensor:
    start = reader.position
    vector = reader.vector(np.float64)
    if vector.size != block_dim:
        raise reader.error_at(start, f"{what} must have {block_dim} elements, got {vector.size}")
    return torch.from_numpy(vector)
