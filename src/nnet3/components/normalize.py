"""NormalizeComponent: rows, or blocks of them, scaled to a given root mean square (components.md 3.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import read_integer, read_number
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.summary import format_number

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine

_FLOOR = 2.0**-66  # of the mean square relative to the target


@register
class NormalizeComponent(Component):
    """y = f x with f = (|x|^2 / (d target_rms^2))^(-1/2), for each block of d = block_dim columns.

    With add_log_stddev each output block has one more element, log(|x| / sqrt(d)).
    """

    type_name = "NormalizeComponent"

    def __init__(self, dim: int, block_dim: int, target_rms: float = 1.0, add_log_stddev: bool = False):
        super().__init__()
        self.input_dim = dim
        self.block_dim = block_dim
        self.target_rms = target_rms
        self.add_log_stddev = add_log_stddev
        self.output_dim = dim + (dim // block_dim if add_log_stddev else 0)
        self.properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT
        if not add_log_stddev:
            self.properties |= Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        key = "dim" if line.has("dim") or not line.has("input-dim") else "input-dim"
        dim = line.integer(key, minimum=1)
        block_dim = line.integer("block-dim", dim, minimum=1)
        if dim % block_dim != 0:
            raise line.error(f"'block-dim' must divide {key}={dim}, got {block_dim}", "block-dim")
        return cls(dim, block_dim, line.number("target-rms", 1.0, above=0.0), line.boolean("add-log-stddev", False))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        reader.expect("<InputDim>", "<Dim>")
        dim = read_integer(reader, "the input dimension")
        block_dim = dim
        if reader.accept("<BlockDim>"):
            block_dim = read_integer(reader, "<BlockDim>")
            if dim % block_dim != 0:
                raise reader.error(f"<BlockDim> must divide the input dimension {dim}, got {block_dim}")
        target_rms = read_number(reader, "<TargetRms>", above=0.0) if reader.accept("<TargetRms>") else 1.0
        add_log_stddev = reader.boolean() if reader.accept("<AddLogStddev>") else False
        if reader.accept("<ValueAvg>"):  # statistics that very old versions kept
            reader.vector()
            reader.expect("<DerivAvg>")
            reader.vector()
            reader.expect("<Count>")
            reader.real()
        reader.expect("</NormalizeComponent>")
        return cls(dim, block_dim, target_rms, add_log_stddev)

    def write_body(self, writer: Writer) -> None:
        writer.token("<InputDim>")
        writer.int32(self.input_dim)
        if self.block_dim != self.input_dim:
            writer.token("<BlockDim>")
            writer.int32(self.block_dim)
        writer.token("<TargetRms>")
        writer.real(self.target_rms)
        writer.token("<AddLogStddev>")
        writer.boolean(self.add_log_stddev)

    def info(self) -> str:
        text = f"{super().info()}, target-rms={format_number(self.target_rms)}"
        text += f", add-log-stddev={'true' if self.add_log_stddev else 'false'}"
        if self.block_dim != self.input_dim:
            text += f", block-dim={self.block_dim}"
        return text

    # In both passes p = |x|^2 / (d target_rms^2) is the relative mean square of a block, f = max(p, floor)^(-1/2).

    def _blocks(self, matrix: Tensor) -> Tensor:
        """A matrix seen as (rows, blocks, columns of a block)."""
        return matrix.unflatten(1, (self.input_dim // self.block_dim, -1))

    def _relative_mean_square(self, blocks: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(blocks, dim=2, keepdim=True)  # (rows, blocks, 1)
        return norm.mul_(1.0 / (math.sqrt(self.block_dim) * self.target_rms)).square_()

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        x_blocks, y_blocks = self._blocks(x), self._blocks(y)
        f = self._relative_mean_square(x_blocks).clamp_min_(_FLOOR).rsqrt_()
        torch.mul(x_blocks, f, out=y_blocks[:, :, : self.block_dim])
        if self.add_log_stddev:
            torch.sub(math.log(self.target_rms), f.log_(), out=y_blocks[:, :, self.block_dim :])

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
