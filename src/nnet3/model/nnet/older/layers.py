"""What components of nnet1 and nnet2 are in a network of nnet3."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from nnet3.errors import NetworkError
from nnet3.model.nnet.older.layer import OlderLayer
from nnet3.model.nnet.stack import Stack

Add = Callable[[Stack, str, OlderLayer], None]


_MOST_SQUARED = 10_000  # columns of a transform whose matrix the file does not have


def _check(holds: bool, layer: OlderLayer, words: str) -> None:
    if not holds:
        raise NetworkError(f"a {layer.type} {words}")


def affine(stack: Stack, name: str, layer: OlderLayer) -> None:
    weight, bias = layer.tensor("<LinearParams>"), layer.tensor("<BiasParams>")
    _check(len(weight) == len(bias), layer, f"of {len(weight)} rows with {len(bias)} biases")
    values = {"linear_params": weight, "bias_params": bias}
    blocks = layer.values.get("<NumBlocks>")
    if blocks is not None:
        _check(blocks > 0 and len(weight) % blocks == 0, layer, f"of {len(weight)} rows in {blocks} blocks")
        stack.node(name, "BlockAffineComponent", stack.here, **values, num_blocks=blocks)
    else:
        stack.node(name, "AffineComponent", stack.here, **values)
    stack.goes_on(name, len(weight))
    rate = layer.values.get("<LearningRate>", 0.0)
    if math.isfinite(rate) and rate > 0:
        stack.components[name].set_learning_rate(rate)


def linear(stack: Stack, name: str, layer: OlderLayer) -> None:
    weight = layer.tensor("<LinearParams>")
    stack.goes_on(stack.affine(name, weight, None, stack.here), len(weight))


def plain(type_name: str) -> Add:
    """Returns what adds a component with a dimension and nothing else."""

    def add(stack: Stack, name: str, layer: OlderLayer) -> None:
        stack.goes_on(stack.plain(name, type_name, stack.dim, stack.here), stack.dim)

    return add


def length_norm(stack: Stack, name: str, layer: OlderLayer) -> None:
    config = f"dim={stack.dim} target-rms={1 / math.sqrt(stack.dim)!r}"
    stack.goes_on(stack.configured(name, "NormalizeComponent", stack.here, config), stack.dim)


def pnorm(stack: Stack, name: str, layer: OlderLayer) -> None:
    power, dim = layer.values.get("<P>", 2.0), layer["<OutputDim>"]
    _check(power == 2.0, layer, f"with p={power:g}: nnet3 has p=2 alone")
    _check(dim > 0 and stack.dim % dim == 0, layer, f"from {stack.dim} to {dim} columns")
    config = f"input-dim={stack.dim} output-dim={dim}"
    stack.goes_on(stack.configured(name, "PnormComponent", stack.here, config), dim)


def _pool(stack: Stack, name: str, dims: tuple[int, int], size: tuple[int, int]) -> None:
    """Adds the largest elements of boxes of `size` in an image of `dims`, whose second axis moves fastest."""
    (x, y), (of_x, of_y) = dims, size
    sizes = f"input-x-dim={x} input-y-dim={y} input-z-dim=1 pool-x-size={of_x} pool-y-size={of_y} pool-z-size=1"
    config = f"{sizes} pool-x-step={of_x} pool-y-step={of_y} pool-z-step=1"
    stack.goes_on(stack.configured(name, "MaxpoolingComponent", stack.here, config), x * y // (of_x * of_y))


def maxout(stack: Stack, name: str, layer: OlderLayer) -> None:
    dim = layer["<OutputDim>"]
    _check(dim > 0 and stack.dim % dim == 0, layer, f"from {stack.dim} to {dim} columns")
    _pool(stack, name, (dim, stack.dim // dim), (1, stack.dim // dim))


def maxpooling(stack: Stack, name: str, layer: OlderLayer) -> None:
    """The largest of `PoolSize` neighbouring blocks of `PoolStride` columns, element by element."""
    size, stride = layer["<PoolSize>"], layer["<PoolStride>"]
    _check(
        size > 0 and stride > 0 and stack.dim % (size * stride) == 0,
        layer,
        f"of {stack.dim} columns, {size} x {stride}",
    )
    _pool(stack, name, (stack.dim // stride, stride), (size, 1))


def power(stack: Stack, name: str, layer: OlderLayer) -> None:
    _check(layer["<Power>"] == 2.0, layer, f"with power={layer['<Power>']:g}: nnet3 has squares alone")
    here = stack.node_here(name)
    stack.goes_on(stack.product(name, stack.dim, here, here), stack.dim)


def scale(stack: Stack, name: str, layer: OlderLayer) -> None:
    scales = torch.full((stack.dim,), layer["<Scale>"])
    stack.goes_on(stack.node(name, "FixedScaleComponent", stack.here, scales=scales), stack.dim)


def fixed_scale(stack: Stack, name: str, layer: OlderLayer) -> None:
    stack.goes_on(stack.node(name, "FixedScaleComponent", stack.here, scales=layer.tensor("<Scales>")), stack.dim)


def fixed_bias(stack: Stack, name: str, layer: OlderLayer) -> None:
    stack.goes_on(stack.node(name, "FixedBiasComponent", stack.here, bias=layer.tensor("<Bias>")), stack.dim)


def fixed_affine(stack: Stack, name: str, layer: OlderLayer) -> None:
    _fixed(stack, name, layer["<LinearParams>"], layer["<BiasParams>"])


def fixed_linear(stack: Stack, name: str, layer: OlderLayer) -> None:
    _fixed(stack, name, layer["<CuMatrix>"], None)


def _fixed(stack: Stack, name: str, weight: np.ndarray, bias: np.ndarray | None) -> None:
    bias = np.zeros(len(weight), np.float32) if bias is None else bias
    if len(bias) != len(weight):
        raise NetworkError(f"a fixed transform of {len(weight)} rows with {len(bias)} biases")
    values = {"linear_params": torch.from_numpy(weight.copy()), "bias_params": torch.from_numpy(bias.copy())}
    stack.goes_on(stack.node(name, "FixedAffineComponent", stack.here, **values), len(weight))


def permute(stack: Stack, name: str, layer: OlderLayer) -> None:
    """Column i goes to column `Reorder`[i]; in nnet3 column i comes from column `column_map`[i]."""
    order = layer["<Reorder>"]
    _check(np.array_equal(np.sort(order), np.arange(stack.dim)), layer, "whose <Reorder> is no permutation")
    stack.goes_on(stack.node(name, "PermuteComponent", stack.here, column_map=np.argsort(order)), stack.dim)


def copy_columns(stack: Stack, name: str, layer: OlderLayer) -> None:
    """Column i is column `Columns`[i] of the input, counted from 1."""
    columns = layer["<Columns>"].astype(np.int64) - 1
    _check(
        len(columns) > 0 and bool(((columns >= 0) & (columns < stack.dim)).all()),
        layer,
        "of columns that are not there",
    )
    _fixed(stack, name, np.eye(stack.dim, dtype=np.float32)[columns], None)


def sum_group(stack: Stack, name: str, layer: OlderLayer) -> None:
    sizes = layer["<Sizes>"]
    _check(len(sizes) > 0 and int(sizes.min()) > 0, layer, "with a group of no columns")
    stack.goes_on(stack.node(name, "SumGroupComponent", stack.here, sizes=sizes), len(sizes))


def dct(stack: Stack, name: str, layer: OlderLayer) -> None:
    """Each chunk of N = `DctDim` columns becomes its first K = `DctKeepDim` coefficients.

    With `Reorder` the C chunks are interlaced, in the output too. As in nnet2, only the first C K columns are then
    read, K to a chunk: this is as meant if K = N.
    """
    size, keep = layer["<DctDim>"], layer.values.get("<DctKeepDim>", layer["<DctDim>"])
    fits = 0 < keep <= size and stack.dim % size == 0 and stack.dim <= _MOST_SQUARED
    _check(fits, layer, f"of {stack.dim} columns, {keep} of {size}")
    k, n = np.arange(keep)[:, np.newaxis], np.arange(size)
    matrix = np.where(k == 0, math.sqrt(1 / size), math.sqrt(2 / size) * np.cos(math.pi / size * (n + 0.5) * k))
    chunks = stack.dim // size
    weight = np.kron(np.eye(chunks), matrix)
    if layer["<Reorder>"]:
        chunk, column = np.meshgrid(np.arange(chunks), np.arange(keep), indexing="ij")
        together, apart = (chunk * keep + column).ravel(), (column * chunks + chunk).ravel()
        gathered = np.zeros((stack.dim, stack.dim))
        gathered[together, apart] = 1.0
        weight = (weight @ gathered)[together[np.argsort(apart)]]
    _fixed(stack, name, weight.astype(np.float32), None)


def dropout(stack: Stack, name: str, layer: OlderLayer) -> None:
    """The rest grows, so that test mode changes nothing, in nnet1 and nnet2 as in GeneralDropoutComponent."""
    proportion = layer["<DropoutProportion>"]
    _check(0.0 <= proportion < 1.0, layer, f"of a proportion of {proportion:g}")
    config = f"dim={stack.dim} time-period=1 dropout-proportion={proportion!r}"
    stack.goes_on(stack.configured(name, "GeneralDropoutComponent", stack.here, config), stack.dim)


def nothing(stack: Stack, name: str, layer: OlderLayer) -> None:
    """Noise that was added in training alone."""


def parametric_relu(stack: Stack, name: str, layer: OlderLayer) -> None:
    """y = alpha x for x > 0, beta x for x < 0: (alpha - beta) max(x, 0) + beta x."""
    alpha, beta = layer.tensor("<AlphaParams>"), layer.tensor("<BetaParams>")
    _check(
        len(alpha) == len(beta) == stack.dim, layer, f"of {stack.dim} columns with {len(alpha)} and {len(beta)} slopes"
    )
    here, scaled = stack.here, "PerElementScaleComponent"
    relu = stack.plain(f"{name}.relu", "RectifiedLinearComponent", stack.dim, here)
    positive = stack.node(f"{name}.positive", scaled, relu, params=alpha - beta)
    all_ = stack.node(f"{name}.all", scaled, here, params=beta)
    stack.goes_on(stack.same(name, stack.dim, f"Sum({positive}, {all_})"), stack.dim)


def _context(layer: OlderLayer) -> list[int]:
    if "<Context>" in layer.values:
        offsets = layer["<Context>"].tolist()
    else:
        left, right = layer["<LeftContext>"], layer["<RightContext>"]
        _check(max(abs(left), abs(right)) < 1000, layer, f"of {left} and {right} frames")
        offsets = list(range(-left, right + 1))
    _check(bool(offsets), layer, "of no frames")
    return [int(offset) for offset in offsets]


def splice(stack: Stack, name: str, layer: OlderLayer) -> None:
    """Frames at several offsets side by side, then the last `ConstComponentDim` columns once.

    These columns of the input are an ivector.
    """
    constant = layer.values.get("<ConstComponentDim>", 0)
    spliced, once, dim = stack.node_here(name), [], stack.dim
    if constant and spliced == "input":
        once = ["ReplaceIndex(ivector, t, 0)"]
    elif constant:
        _check(0 < constant < dim, layer, f"of {dim} columns, {constant} of them constant")
        dim -= constant
        once = [stack.columns(f"{name}.constant", spliced, dim, constant)]
        spliced = stack.columns(f"{name}.spliced", spliced, 0, dim)
    offsets = _context(layer)
    parts = [stack.at(spliced, offset) for offset in offsets] + once
    stack.goes_on(f"Append({', '.join(parts)})", dim * len(offsets) + constant)


def splice_max(stack: Stack, name: str, layer: OlderLayer) -> None:
    offsets, here = _context(layer), stack.node_here(name)
    stack.here = f"Append({', '.join(stack.at(here, offset) for offset in offsets)})"
    _pool(stack, name, (len(offsets), stack.dim), (len(offsets), 1))


def convolution(stack: Stack, name: str, layer: OlderLayer) -> None:
    """Filters over `PatchDim` columns of each of the spliced frames, moved on by `PatchStep`.

    A row has `PatchStride` columns of each frame one after the other, or with `AppendedConv` the frames' first
    columns, then the second ones.
    """
    size, step, stride = layer["<PatchDim>"], layer["<PatchStep>"], layer["<PatchStride>"]
    filters, bias = layer.tensor("<FilterParams>"), layer.tensor("<BiasParams>")
    fits = 0 < size <= stride and step > 0 and (stride - size) % step == 0 and filters.shape[1] % size == 0
    _check(fits and len(bias) == len(filters), layer, f"of patches of {size} of {stride} columns, moved on by {step}")
    frames = filters.shape[1] // size
    dims = {"x": (frames, frames, 1), "y": (stride, size, step)}
    if layer.values.get("<AppendedConv>", False):
        dims = {"x": dims["y"], "y": dims["x"]}
        filters = filters.unflatten(1, (frames, size)).transpose(1, 2).flatten(1)
    sizes = {
        f"{word}_{axis}_{end}": value
        for axis, values in dims.items()
        for (word, end), value in zip((("input", "dim"), ("filt", "dim"), ("filt", "step")), values, strict=True)
    }
    values = {**sizes, "input_z_dim": 1, "input_vectorization": 1, "filter_params": filters, "bias_params": bias}
    node = stack.node(name, "ConvolutionComponent", stack.here, **values)
    stack.goes_on(node, len(filters) * (1 + (stride - size) // step))


#: By type, the first part of names of nodes, as Kaldi's script has it, and what adds a layer.
LAYERS: dict[str, tuple[str, Add]] = {
    "AffineComponent": ("affine", affine),
    "AffineComponentPreconditioned": ("affine", affine),
    "AffineComponentPreconditionedOnline": ("affine", affine),
    "BlockAffineComponent": ("affine", affine),
    "BlockAffineComponentPreconditioned": ("affine", affine),
    "SigmoidComponent": ("nonlin", plain("SigmoidComponent")),
    "TanhComponent": ("nonlin", plain("TanhComponent")),
    "RectifiedLinearComponent": ("nonlin", plain("RectifiedLinearComponent")),
    "PowerComponent": ("nonlin", power),
    "PnormComponent": ("nonlin", pnorm),
    "NormalizeComponent": ("renorm", plain("NormalizeComponent")),
    "MaxoutComponent": ("maxout", maxout),
    "MaxpoolingComponent": ("maxpool", maxpooling),
    "ScaleComponent": ("rescale", scale),
    "DropoutComponent": ("dropout", dropout),
    "SoftmaxComponent": ("softmax", plain("SoftmaxComponent")),
    "LogSoftmaxComponent": ("log-softmax", plain("LogSoftmaxComponent")),
    "FixedScaleComponent": ("fixed-scale", fixed_scale),
    "FixedAffineComponent": ("fixed-affine", fixed_affine),
    "FixedLinearComponent": ("fixed-linear", fixed_linear),
    "FixedBiasComponent": ("fixed-bias", fixed_bias),
    "PermuteComponent": ("permute", permute),
    "AdditiveNoiseComponent": ("noise", nothing),
    "Convolutional1dComponent": ("conv", convolution),
    "SumGroupComponent": ("sum-group", sum_group),
    "DctComponent": ("dct", dct),
    "SpliceComponent": ("splice", splice),
    "SpliceMaxComponent": ("splice", splice_max),
}
#: Layers of nnet1 that nnet2 does not have.
LAYERS_OF_NNET1: dict[str, tuple[str, Add]] = {
    "LinearTransform": ("linear", linear),
    "LengthNorm": ("renorm", length_norm),
    "Copy": ("copy", copy_columns),
    "ParametricRelu": ("nonlin", parametric_relu),
}
