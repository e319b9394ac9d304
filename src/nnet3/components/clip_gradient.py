"""ClipGradientComponent (components.md 5.1)."""

from __future__ import annotations

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

_REPAIR_PROBABILITY = 0.5
_INT32_MAX = 2**31 - 1


@register
class ClipGradientComponent(Component):
    """y = x; derivatives are clipped by their row's norm or element by element, and blocked altogether by threshold 0.

    Statistics of norm-based clipping: `num_clipped` of `count` rows; `num_self_repaired` and `num_backpropped`
    count minibatches, and neither scaling nor adding of components changes those two.
    """

    type_name = "ClipGradientComponent"
    properties = (
        Properties.SIMPLE
        | Properties.PROPAGATE_IN_PLACE
        | Properties.BACKPROP_IN_PLACE
        | Properties.BACKPROP_NEEDS_INPUT
    )
    statistic_names = ("count", "num_clipped")

    def __init__(self, dim: int, clipping_threshold: float = 15.0, norm_based_clipping: bool = False):
        super().__init__()
        self.input_dim = self.output_dim = dim
        self.clipping_threshold = clipping_threshold
        self.norm_based_clipping = norm_based_clipping
        self.self_repair_clipped_proportion_threshold = 1.0
        self.self_repair_target = 0.0
        self.self_repair_scale = 0.0
        self.count = 0.0
        self.num_clipped = torch.zeros((), dtype=torch.float64)
        self.num_self_repaired = 0
        self.num_backpropped = 0

    # ---- configuration and files ----

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        dim = line.integer("dim", minimum=1)
        threshold = line.number("clipping-threshold", 15.0, minimum=0.0)
        component = cls(dim, threshold, line.boolean("norm-based-clipping", False))
        component.self_repair_clipped_proportion_threshold = line.number(
            "self-repair-clipped-proportion-threshold", 0.01, minimum=0.0
        )
        component.self_repair_target = line.number("self-repair-target", 0.0, minimum=0.0)
        component.self_repair_scale = line.number("self-repair-scale", 1.0, minimum=0.0)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        reader.expect("<Dim>")
        dim = read_integer(reader, "<Dim>")
        reader.expect("<ClippingThreshold>")
        threshold = read_number(reader, "<ClippingThreshold>")
        reader.expect("<NormBasedClipping>")
        component = cls(dim, threshold, reader.boolean())
        if reader.accept("<SelfRepairClippedProportionThreshold>"):
            component.self_repair_clipped_proportion_threshold = reader.real()
            reader.expect("<SelfRepairTarget>")
            component.self_repair_target = reader.real()
            reader.expect("<SelfRepairScale>")
            component.self_repair_scale = reader.real()
        reader.expect("<NumElementsClipped>")
        component.num_clipped.fill_(read_integer(reader, "<NumElementsClipped>", 0))
        reader.expect("<NumElementsProcessed>")
        component.count = float(read_integer(reader, "<NumElementsProcessed>", 0))
        if reader.accept("<NumSelfRepaired>"):
            component.num_self_repaired = read_integer(reader, "<NumSelfRepaired>", 0)
            reader.expect("<NumBackpropped>")
            component.num_backpropped = read_integer(reader, "<NumBackpropped>", 0)
        reader.expect("</ClipGradientComponent>")
        return component

    def write_body(self, writer: Writer) -> None:
        writer.token("<Dim>")
        writer.int32(self.input_dim)
        writer.token("<ClippingThreshold>")
        writer.real(self.clipping_threshold)
        writer.token("<NormBasedClipping>")
        writer.boolean(self.norm_based_clipping)
        writer.token("<SelfRepairClippedProportionThreshold>")
        writer.real(self.self_repair_clipped_proportion_threshold)
        writer.token("<SelfRepairTarget>")
        writer.real(self.self_repair_target)
        writer.token("<SelfRepairScale>")
        writer.real(self.self_repair_scale)
        for token, value in (
            ("<NumElementsClipped>", float(self.num_clipped)),
            ("<NumElementsProcessed>", self.count),
            ("<NumSelfRepaired>", self.num_self_repaired),
            ("<NumBackpropped>", self.num_backpropped),
        ):
            writer.token(token)
            writer.int32(min(round(value), _INT32_MAX))

    def info(self) -> str:
        text = f"{self.type_name}, dim={self.input_dim}"
        text += f", norm-based-clipping={'true' if self.norm_based_clipping else 'false'}"
        text += f", clipping-threshold={format_number(self.clipping_threshold)}"
        text += f", clipped-proportion={format_number(self._clipped_proportion())}"
        if self.self_repair_scale != 0.0:
            threshold = format_number(self.self_repair_clipped_proportion_threshold)
            text += f", self-repair-clipped-proportion-threshold={threshold}"
            text += f", self-repair-target={format_number(self.self_repair_target)}"
            text += f", self-repair-scale={format_number(self.self_repair_scale)}"
        return text

    def _clipped_proportion(self) -> float:
        return float(self.num_clipped) / self.count if self.count > 0 else 0.0

    def zero_stats(self) -> None:
        super().zero_stats()
        self.num_self_repaired = self.num_backpropped = 0

    # ---- arithmetic ----

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        if y.data_ptr() != x.data_ptr():
            y.copy_(x)

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
        threshold = self.clipping_threshold
        if x_deriv is None:
            return
        if threshold == 0.0:
            x_deriv.zero_()
            return
        if self.norm_based_clipping:
            norms = torch.linalg.vector_norm(y_deriv, dim=1, keepdim=True)
            torch.mul(y_deriv, (threshold / norms).clamp_max_(1.0), out=x_deriv)
            if isinstance(to_update, ClipGradientComponent):
                to_update.count += y_deriv.shape[0]
                to_update.num_clipped = to_update.num_clipped + (norms >= threshold).sum()
        else:
            torch.clamp(y_deriv, -threshold, threshold, out=x_deriv)
        if isinstance(to_update, ClipGradientComponent):
            to_update.num_backpropped += 1
            self._self_repair(x, x_deriv, to_update)

    def _self_repair(self, x: Tensor, x_deriv: Tensor, to_update: ClipGradientComponent) -> None:
        """If much is clipped, turn derivatives towards smaller inputs; their sum of row norms stays what it is."""
        if self.self_repair_clipped_proportion_threshold >= 1.0 or self.self_repair_scale == 0.0 or self.count == 0.0:
            return
        if self.rng.uniform() > _REPAIR_PROBABILITY:
            return
        proportion = self._clipped_proportion()
        if proportion <= self.self_repair_clipped_proportion_threshold:
            return
        to_update.num_self_repaired += 1
        # R = max(|x| - target, 0) sgn(x); g_x -= z / P R with z = scale q (sum of |g_x row|) / (sum of |R row|)
        excess = x.sign().mul_((x.abs() - self.self_repair_target).clamp_min_(0.0))
        norm_before, norm_of_excess = _sum_of_row_norms(x_deriv), _sum_of_row_norms(excess)
        z = norm_before * (self.self_repair_scale * proportion) / norm_of_excess
        z = torch.where(norm_of_excess == 0.0, 0.0, z)
        x_deriv.addcmul_(excess, z, value=-1.0 / _REPAIR_PROBABILITY)
        norm_after = _sum_of_row_norms(x_deriv)
        x_deriv.mul_(torch.where(norm_after == 0.0, 1.0, norm_before / norm_after))


def _sum_of_row_norms(matrix: Tensor) -> Tensor:
    return torch.linalg.vector_norm(matrix, dim=1).sum()
