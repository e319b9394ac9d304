"""Convolutions over time and height with what comes before and after them: conv-relu-batchnorm-layer and its family.

The words of the type before `-layer` are the operations, in the order in which they are applied. Images are rows of
`height` blocks, one below the other, each of `num-filters` columns.
"""

from __future__ import annotations

import re
from itertools import pairwise

from nnet3.base.text.values import above
from nnet3.model.xconfig.expansion import Expander
from nnet3.model.xconfig.found import Found, Reads
from nnet3.model.xconfig.layer import Key, Layer, LayerType, passed
from nnet3.model.xconfig.layers import common
from nnet3.model.xconfig.statements import Settings, settings

CONVOLUTION = "TimeHeightConvolutionComponent"
SELF_REPAIR_SCALE = Key.of(
    "self-repair-scale", 2e-05, "Strength with which units that are always on or off are mended."
)
NATURAL_GRADIENT_KEYS = (
    passed("use-natural-gradient", "Whether the parameters are updated by natural gradient."),
    passed("rank-in", "Rank of the natural gradient on the side of the input."),
    passed("rank-out", "Rank of the natural gradient on the side of the output."),
    passed("num-minibatches-history", "Minibatches that the natural gradient remembers."),
    passed("alpha-in", "Smoothing of the natural gradient on the side of the input."),
    passed("alpha-out", "Smoothing of the natural gradient on the side of the output."),
)
_WORDS = {
    **common.OPERATION_WORDS,
    "conv": "a convolution over time and height",
    "batchnorm": "batch normalisation of each filter",
    "so": "a trained scale and offset for each filter",
}
_INTEGERS = re.compile(r"[-+]?\d{1,9}(?:,[-+]?\d{1,9})*")
_KEYS = (
    Key.of("height-in", -1, "Height of the input image; the filters of the input follow from it.", above(0)),
    Key.of("height-subsample-out", 1, "Heights of the input for each height of the output.", above(0)),
    Key.of("height-out", -1, "Height of the output image.", above(0)),
    Key.of("height-offsets", "", "Heights that the convolution looks at, such as -1,0,1."),
    Key.of("time-offsets", "", "Frames that it looks at, such as -1,0,1."),
    Key.of("required-time-offsets", "", "Those of the frames that must be there.", absent="all of them"),
    Key.of("num-filters-out", -1, "Filters of the output.", absent="those of the input, without a convolution"),
    common.TARGET_RMS,
    SELF_REPAIR_SCALE,
    Key.of("self-repair-lower-threshold", 0.05, "Units that are on less often than this are mended."),
    common.MAX_CHANGE,
    Key.of("dropout-proportion", 0.5, "Proportion of values that dropout, if there is some, zeroes in training."),
    common.PARAM_STDDEV,
    common.BIAS_STDDEV,
    common.LEARNING_RATE_FACTOR,
    *NATURAL_GRADIENT_KEYS,
    common.L2_REGULARIZE,
)
_CONVOLUTION_SETTINGS = (
    *("param-stddev", "bias-stddev", "use-natural-gradient", "max-change", "rank-in", "rank-out"),
    *("num-minibatches-history", "alpha-in", "alpha-out", "num-filters-in", "num-filters-out", "height-in"),
    *("height-out", "height-subsample-out", "height-offsets", "time-offsets", "required-time-offsets"),
    *("learning-rate-factor", "l2-regularize"),
)


def filters_of_input(layer: Layer, height_key: str) -> int:
    """Returns the filters of the input. Raises ConfigError if the height does not divide the input's dimension."""
    height = layer[height_key]
    layer.require(layer.input_dim % height == 0, height_key, f"must divide the input's dimension ({layer.input_dim})")
    return layer.input_dim // height


def _check_offsets(layer: Layer, key: str) -> None:
    text = layer[key].replace(" ", "")
    numbers = [int(word) for word in text.split(",")] if _INTEGERS.fullmatch(text) else []
    increasing = bool(numbers) and all(a < b for a, b in pairwise(numbers))
    layer.require(increasing, key, "must be integers that increase, such as -1,0,1")


def _settle(layer: Layer) -> None:
    layer["num-filters-in"] = filters_of_input(layer, "height-in")
    height, needed = layer["height-in"], layer["height-out"] * layer["height-subsample-out"]
    least = height - len(layer["height-offsets"].split(","))
    rule = (
        f"times height-subsample-out must be from {least} to {height}: height-in less the height-offsets, to height-in"
    )
    layer.require(least <= needed <= height, "height-out", rule)
    if "noconv" not in common.operations_of(layer.type.name):
        layer.require(layer["num-filters-out"] > 0, "num-filters-out", "must be > 0")
        for key in ("height-offsets", "time-offsets"):
            _check_offsets(layer, key)
        if layer["required-time-offsets"]:
            _check_offsets(layer, "required-time-offsets")
    else:
        filters = layer["num-filters-out"] if layer["num-filters-out"] > 0 else layer["num-filters-in"]
        rule = f"times height-out must be the input's dimension ({layer.input_dim}), as there is no convolution"
        layer.require(filters * layer["height-out"] == layer.input_dim, "num-filters-out", rule)


def _expand(layer: Layer, expander: Expander) -> None:
    last, filters, height = layer.input, layer["num-filters-in"], layer["height-in"]
    for operation in common.operations_of(layer.type.name):
        if operation == "noconv":
            continue
        if operation == "conv":
            last = expander.pair("conv", CONVOLUTION, layer.given_settings(*_CONVOLUTION_SETTINGS), last)
            filters, height = layer["num-filters-out"], layer["height-out"]
            continue
        component, values = _operation(layer, operation, filters)
        last = expander.pair(operation, component, settings(dim=filters * height) + values, last)
    expander.output(last, filters * height)


def _operation(layer: Layer, operation: str, filters: int) -> tuple[str, Settings]:
    """Returns the component of what is no convolution and its settings besides the dimension."""
    block, target_rms = settings(block_dim=filters), layer.given_settings("target-rms")
    return {
        "batchnorm": (common.BATCH_NORM, block + target_rms),
        "renorm": (common.NORMALIZE, target_rms),
        "relu": (common.RELU, block + layer.given_settings("self-repair-scale", "self-repair-lower-threshold")),
        "dropout": (common.DROPOUT, layer.given_settings("dropout-proportion")),
        "so": (common.SCALE_AND_OFFSET, block),
    }[operation]


def _height_of_blocks(found: Found) -> int | None:
    """Returns the height of a type without a convolution, from its block sizes."""
    dim, filters = found.first("dim"), found.first("block-dim")
    return int(dim) // int(filters) if dim and filters else None


def _convolution(name: str) -> LayerType:
    words = [_WORDS[operation] for operation in common.operations_of(name) if operation != "noconv"]
    summary = ", then ".join(words) + "."
    example = "height-in=40 height-out=40"
    reads: Reads = {"height-in": _height_of_blocks, "height-out": _height_of_blocks}
    if "noconv" not in name:
        reads = {}
        example += " num-filters-out=64 height-offsets=-1,0,1 time-offsets=-1,0,1 required-time-offsets=0"
    return LayerType(name, summary[0].upper() + summary[1:], _KEYS, _expand, _settle, example=example, reads=reads)


LAYER_TYPES = tuple(
    _convolution(name)
    for name in (
        "conv-layer",
        "conv-relu-layer",
        "conv-renorm-layer",
        "conv-relu-renorm-layer",
        "conv-relu-batchnorm-layer",
        "conv-relu-batchnorm-so-layer",
        "conv-relu-batchnorm-dropout-layer",
        "conv-relu-dropout-layer",
        "relu-conv-layer",
        "relu-conv-renorm-layer",
        "relu-batchnorm-conv-layer",
        "batchnorm-conv-layer",
        "batchnorm-conv-relu-layer",
        "relu-batchnorm-noconv-layer",
        "relu-noconv-layer",
    )
)
