"""NormalizeComponent: rows, or blocks of them, scaled to a given root mean square."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.field_table import Field
from nnet3.components.kinds import BOOLEAN, POSITIVE, SIZE
from nnet3.components.nonlinearity import BLOCK_DIM, old_statistics
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.native import operations
from nnet3.native.operations import Operations
from nnet3.text import ConfigLine

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
        """A matrix seen as (rows, blocks, columns of a block)."""
        return matrix.unflatten(1, (self.input_dim // self.block_dim, -1))

    def _relative_mean_square(self, blocks: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(blocks, dim=2, keepdim=True)  # (rows, blocks, 1)
        return norm.mul_(1.0 / (math.sqrt(self.block_dim) * self.target_rms)).square_()

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
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
        x_blocks, g, x_deriv_blocks = self._blocks(x), self._blocks(y_deriv), self._blocks(x_deriv)
        size = self.block_dim * self.target_rms**2
        p = self._relative_mean_square(x_blocks)
        f = p.clamp_min(_FLOOR).rsqrt_()
        dot = (g[:, :, : self.block_dim] * x_blocks).sum(2, keepdim=True)
        coefficient = dot.mul_((f**3).masked_fill_(p <= _FLOOR, 0.0)).mul_(-1.0 / size)
        if self.add_log_stddev:
            coefficient.addcdiv_(g[:, :, self.block_dim :], (p * size).clamp_min_(self.block_dim * _FLOOR))
        torch.mul(g[:, :, : self.block_dim], f, out=x_deriv_blocks)
        x_deriv_blocks.addcmul_(x_blocks, coefficient)
