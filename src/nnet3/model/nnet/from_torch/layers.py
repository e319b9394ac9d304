"""What modules without memory are in a network: affine, convolution, normalisation, nonlinearities, dropout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nnet3.errors import ArgumentError
from nnet3.model.nnet.stack import Stack


def linear(stack: Stack, name: str, module: nn.Linear) -> None:
    stack.goes_on(stack.affine(name, module.weight, module.bias, stack.here), module.out_features)


def conv1d(stack: Stack, name: str, module: nn.Conv1d) -> None:
    """y_s = b + sum_j W_j x_{s stride + j dilation - padding}.

    Without padding the row at t looks at both sides of t, so the network has context. With as much padding as keeps the
    number of rows, rows before the first and after the last are zeros here too: IfDefined.
    """
    (size,), (dilation,), (stride,) = module.kernel_size, module.dilation, module.stride
    lost = dilation * (size - 1)
    padding = module.padding if isinstance(module.padding, str) else module.padding[0]
    is_padded = padding not in (0, "valid") and lost > 0
    if is_padded and (module.padding_mode != "zeros" or (padding != "same" and 2 * padding != lost)):
        raise ArgumentError(
            "pads otherwise than a network can: padding must be 0, or zeros, as many as keep the number of frames: "
            f"{lost / 2:g} on each side"
        )
    first = -(lost // 2) if is_padded else -dilation * ((size - 1) // 2)
    offsets = [first + dilation * j for j in range(size)]
    if is_padded and 0 not in offsets:
        raise ArgumentError(f"looks at frames {offsets} and not at 0, where a network cannot pad")
    weight = _dense(module).permute(0, 2, 1).reshape(module.out_channels, -1)  # (outputs, kernel * inputs)
    if is_padded:
        seen = [stack.at(stack.here, offset) for offset in offsets]
        seen = [frame if frame == stack.here else f"IfDefined({frame})" for frame in seen]
        node = stack.affine(name, weight, module.bias, f"Append({', '.join(seen)})")
    elif size == 1:
        node = stack.affine(name, weight, module.bias, stack.here)
    else:
        bias = torch.zeros(0) if module.bias is None else module.bias
        times = tuple(offset * stack.step for offset in offsets)
        node = stack.node(name, "TdnnComponent", stack.here, time_offsets=times, linear_params=weight, bias_params=bias)
    stack.goes_on(node, module.out_channels)
    stack.step *= stride


def _dense(module: nn.Conv1d) -> Tensor:
    """Returns the weights (outputs, inputs, kernel); between groups they are 0."""
    weight = module.weight.detach()
    blocks = weight.unflatten(0, (module.groups, -1)).unbind(0)
    return torch.stack([torch.block_diag(*(block[:, :, j] for block in blocks)) for j in range(weight.shape[2])], 2)


def batch_norm(stack: Stack, name: str, module: nn.BatchNorm1d) -> None:
    """y = gamma (x - mean) / sqrt(variance + eps) + beta, by running statistics."""
    if module.running_mean is None or module.running_var is None:
        raise ArgumentError("has no running statistics: test mode needs them")
    seen = module.num_batches_tracked
    node = stack.node(
        name,
        "BatchNormComponent",
        stack.here,
        dim=module.num_features,
        block_dim=module.num_features,
        epsilon=module.eps,
        count=float(max(1, int(seen) if seen is not None else 1)),
        stats_mean=module.running_mean,
        stats_var=module.running_var,
    )
    _scale_and_offset(stack, name, node, module.weight, module.bias)


def _scale_and_offset(stack: Stack, name: str, node: str, scale: Tensor | None, offset: Tensor | None) -> None:
    """Goes on with gamma x + beta; ScaleAndOffsetComponent has no scales near 0."""
    if scale is not None:
        node = stack.node(f"{name}.scale", "NaturalGradientPerElementScaleComponent", node, params=scale)
    if offset is not None:
        node = stack.node(f"{name}.offset", "PerElementOffsetComponent", node, offsets=offset)
    stack.goes_on(node, stack.dim)


def layer_norm(stack: Stack, name: str, module: nn.LayerNorm) -> None:
    """y = gamma (x - mean) / sqrt(variance + eps) + beta over the columns of a row."""
    centre = torch.eye(stack.dim, dtype=torch.float64) - 1.0 / stack.dim
    values = {"linear_params": centre, "bias_params": torch.zeros(stack.dim)}
    centred = stack.node(f"{name}.centre", "FixedAffineComponent", stack.here, **values)
    node = _divided_by_rms(stack, name, centred, module.eps)
    _scale_and_offset(stack, name, node, module.weight, module.bias)


def rms_norm(stack: Stack, name: str, module: Any) -> None:
    """y = gamma x / sqrt(mean of x^2 + eps) over the columns of a row."""
    eps = torch.finfo(stack.dtype).eps if module.eps is None else module.eps
    _scale_and_offset(stack, name, _divided_by_rms(stack, name, stack.here, eps), module.weight, None)


def _divided_by_rms(stack: Stack, name: str, node: str, eps: float) -> str:
    """Returns a node with x / sqrt(|x|^2 / D + eps).

    NormalizeComponent has no eps. One more column of sqrt(D eps) puts it under the root.
    """
    dim = stack.dim
    longer = f"Append({node}, Const({math.sqrt(dim * eps)!r}, 1))"
    rms = math.sqrt(dim / (dim + 1))
    normalised = stack.node(f"{name}.normalize", "NormalizeComponent", longer, dim=dim + 1, target_rms=rms)
    return stack.columns(name, normalised, 0, dim)


def plain(type_name: str) -> Callable[[Stack, str, nn.Module], None]:
    """Returns what adds a component with a dimension and nothing else."""

    def add(stack: Stack, name: str, module: nn.Module) -> None:
        if getattr(module, "dim", None) == 0:
            raise ArgumentError("sums over dimension 0: a network can over columns only")
        stack.goes_on(stack.plain(name, type_name, stack.dim, stack.here), stack.dim)

    return add


def silu(stack: Stack, name: str, module: nn.SiLU) -> None:
    """y = x sigmoid(x)."""
    gate = stack.plain(f"{name}.sigmoid", "SigmoidComponent", stack.dim, stack.here)
    stack.goes_on(stack.product(name, stack.dim, stack.here, gate), stack.dim)


def leaky_relu(stack: Stack, name: str, module: nn.LeakyReLU) -> None:
    """y = a x + (1 - a) max(x, 0)."""
    slope = module.negative_slope
    relu = stack.plain(f"{name}.relu", "RectifiedLinearComponent", stack.dim, stack.here)
    both = f"Sum(Scale({slope!r}, {stack.here}), Scale({1 - slope!r}, {relu}))"
    stack.goes_on(stack.same(name, stack.dim, both), stack.dim)


def dropout(stack: Stack, name: str, module: nn.Dropout | nn.Dropout1d) -> None:
    """Single numbers, or in Dropout1d columns of whole sequences; the rest grows, so that test mode changes nothing."""
    period = 0 if isinstance(module, nn.Dropout1d) else 1
    stack.goes_on(add_dropout(stack, name, module.p, period), stack.dim)


def add_dropout(stack: Stack, name: str, proportion: float, period: int = 1) -> str:
    config = f"dim={stack.dim} time-period={period} dropout-proportion={proportion!r}"
    return stack.configured(name, "GeneralDropoutComponent", stack.here, config)


def identity(stack: Stack, name: str, module: nn.Identity) -> None:
    """Adds nothing."""
