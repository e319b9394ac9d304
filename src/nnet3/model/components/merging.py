"""Rules that put two components, one applied after the other, into one component with the same result.

A rule takes the first component and the second, whose input holds the first's output once or several times side by
side. It returns a new component, the second itself if the first does nothing, or None if the pair does not fit.
Products are made in float64. A copy of a component keeps its rates and limits of training. Any other new component has
the defaults, as in Kaldi; only a linear component with a new bias keeps its learning rate.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nnet3.model.components.affine import AffineComponent, LinearComponent
from nnet3.model.components.base import Component
from nnet3.model.components.batch_norm import BatchNormComponent
from nnet3.model.components.fixed import FixedAffineComponent, FixedScaleComponent
from nnet3.model.components.tdnn import TdnnComponent
from nnet3.model.components.time_height_convolution import TimeHeightConvolutionComponent

#: A rule for two components, the first and the second.
Merge = Callable[[Component, Component], Component | None]

_TAKES_SCALE = AffineComponent | LinearComponent | TdnnComponent | TimeHeightConvolutionComponent


def merge_dropout(first: Component, second: Component) -> Component | None:
    """Turns dropout in test mode into a scale."""
    scale = first.test_mode_scale
    if scale is None or not isinstance(second, _TAKES_SCALE):
        return None
    if scale == 1.0:
        return second
    merged = second.copy()
    merged.parameters()[merged.parameter_names[0]].mul_(scale)
    return merged


def merge_batchnorm(first: Component, second: Component) -> Component | None:
    """W (s x + o) + b = W diag(s) x + (b + W o), with scale s and offset o of a batch-norm in test mode, tiled."""
    if not isinstance(first, BatchNormComponent) or not first.test_mode:
        return None
    if isinstance(second, LinearComponent):
        second = _with_bias(second)
    if not isinstance(second, AffineComponent | TdnnComponent):
        return None
    blocks = _blocks(second.linear_params, first.output_dim)
    scale, offset = first.scale_and_offset(blocks)
    bias = second.bias_params if second.bias_params.numel() else second.linear_params.new_zeros(second.output_dim)
    merged = second.copy()
    merged.linear_params = (blocks * scale).flatten(1).to(second.linear_params)
    merged.bias_params = (bias + (blocks @ offset).sum(1)).to(second.linear_params)
    if isinstance(merged, TdnnComponent) and not second.bias_params.numel():
        merged.forget_natural_gradient()  # a one is appended to the spliced input now
    return merged


def merge_affine(first: Component, second: Component) -> Component | None:
    """W2 (W1 x + b1) + b2 = W2 W1 x + (b2 + W2 b1), unless the first reduces the dimension, when two are cheaper."""
    if not isinstance(first, AffineComponent | FixedAffineComponent) or first.input_dim > first.output_dim:
        return None
    if not isinstance(second, AffineComponent):
        return None
    blocks = _blocks(second.linear_params, first.output_dim)
    linear = (blocks @ first.linear_params.double()).flatten(1)
    bias = second.bias_params + (blocks @ first.bias_params.double()).sum(1)
    return AffineComponent(linear.to(second.linear_params), bias.to(second.linear_params))


def merge_scale(first: Component, second: Component) -> Component | None:
    """diag(s) (W x + b) = diag(s) W x + s b."""
    if not isinstance(first, AffineComponent) or not isinstance(second, FixedScaleComponent):
        return None
    if first.output_dim != second.input_dim:
        return None
    merged = first.copy()
    merged.linear_params.mul_(second.scales.unsqueeze(1))
    merged.bias_params.mul_(second.scales)
    return merged


#: The rules by name, in the order in which they are tried.
MERGES: dict[str, Merge] = {
    "dropout": merge_dropout,
    "batchnorm": merge_batchnorm,
    "affine": merge_affine,
    "scale": merge_scale,
}


def _blocks(linear: Tensor, dim: int) -> Tensor:
    """Groups columns by the copy of the first component's output that they multiply: (rows, copies, dim)."""
    return linear.to(torch.float64).unflatten(1, (-1, dim))


def _with_bias(linear: LinearComponent) -> AffineComponent:
    affine = AffineComponent(linear.params, linear.params.new_zeros(linear.output_dim))
    affine.set_actual_learning_rate(linear.learning_rate)
    return affine
