"""Residual blocks of convolutions: res-block (activation first) and res2-block (activation last)."""

from __future__ import annotations

from nnet3.base.text.values import Rule, above, one_of
from nnet3.model.xconfig.expansion import Expander
from nnet3.model.xconfig.found import Found, Read, Reads, setting
from nnet3.model.xconfig.layer import Key, Layer, LayerType
from nnet3.model.xconfig.layers import common
from nnet3.model.xconfig.layers.convolution import (
    CONVOLUTION,
    NATURAL_GRADIENT_KEYS,
    SELF_REPAIR_SCALE,
    filters_of_input,
)
from nnet3.model.xconfig.statements import Settings, settings
from nnet3.model.xconfig.term import add

_BOTTLENECK = Key.of(
    "num-bottleneck-filters",
    -1,
    "Filters of the middle one of three convolutions.",
    Rule("-1 (two convolutions, none of them a bottleneck) or > 0", lambda value: value == -1 or value > 0),
    absent="two convolutions without a bottleneck",
)
_COMMON_KEYS = (
    _BOTTLENECK,
    Key.of("time-period", 1, "Frames between those that a convolution looks at.", above(0)),
    SELF_REPAIR_SCALE,
    *(
        Key.of(
            f"self-repair-lower-threshold{number}", 0.05, f"Units of relu{number} on less often than this are mended."
        )
        for number in (1, 2, 3)
    ),
    common.MAX_CHANGE,
    Key.of("allow-zero-padding", True, "Whether only the frame in the middle must be there."),
    common.PARAM_STDDEV,
    common.BIAS_STDDEV,
    *NATURAL_GRADIENT_KEYS,
    common.L2_REGULARIZE,
)


def _convolution_settings(layer: Layer) -> Settings:
    return layer.given_settings(
        *("param-stddev", "bias-stddev", "use-natural-gradient", "max-change", "rank-in", "rank-out"),
        *("num-minibatches-history", "alpha-in", "alpha-out", "l2-regularize"),
    )


def _padding(layer: Layer) -> Settings:
    return settings(required_time_offsets=0) if layer["allow-zero-padding"] else ()


def _repair(layer: Layer, number: int) -> Settings:
    threshold = layer[f"self-repair-lower-threshold{number}"]
    return layer.given_settings("self-repair-scale") + settings(self_repair_lower_threshold=threshold)


def _around(period: int) -> str:
    return f"{-period},0,{period}"


# ---- res-block ----


def _settle_res_block(layer: Layer) -> None:
    filters = filters_of_input(layer, "height")
    if layer["num-filters"] == -1:
        layer["num-filters"] = filters
    rule = f"times height must be the input's dimension ({layer.input_dim})"
    layer.require(layer["num-filters"] == filters, "num-filters", rule)


def _expand_res_block(layer: Layer, expander: Expander) -> None:
    height, filters, narrow = layer["height"], layer["num-filters"], layer["num-bottleneck-filters"]
    wide_window = _around(layer["height-period"]), _around(layer["time-period"])
    convolutions = [(filters, filters, *wide_window)] * 2
    if narrow > 0:
        convolutions = [(filters, narrow, "0", "0"), (narrow, narrow, *wide_window), (narrow, filters, "0", "0")]
    last = layer.input
    for number, (filters_in, filters_out, heights, times) in enumerate(convolutions, start=1):
        block = settings(dim=filters_in * height, block_dim=filters_in)
        last = expander.pair(f"relu{number}", common.RELU, block + _repair(layer, number), last)
        last = expander.pair(f"batchnorm{number}", common.BATCH_NORM, block, last)
        convolution = settings(
            height_in=height,
            height_out=height,
            height_offsets=heights,
            time_offsets=times,
            num_filters_in=filters_in,
            num_filters_out=filters_out,
        )
        convolution += _padding(layer) + _convolution_settings(layer)
        last = expander.pair(f"conv{number}", CONVOLUTION, convolution, last)
    source = layer["bypass-source"]
    if source == "noop":
        dim = settings(dim=layer.input_dim)
        output = expander.pair("noop", common.NO_OP, dim, add(layer.input, last), settings_before_type=1)
    else:
        output = add(last, layer.input if source == "input" else expander(f"{source}1"))
    expander.output(output, layer.input_dim)


# ---- res2-block ----


def _settle_res2_block(layer: Layer) -> None:
    height, height_in, height_out = layer["height"], layer["height-in"], layer["height-out"]
    if height > 0 and height_in == height_out == -1:
        layer["height-in"] = layer["height-out"] = height
    elif not (height_in > 0 and height_out > 0):
        raise layer.error("either 'height=' or both 'height-in=' and 'height-out=' must be given, and > 0", "height")
    filters_of_input(layer, "height-in")
    height_in, height_out = layer["height-in"], layer["height-out"]
    if height_out == height_in:
        return
    rule = f"must be height-in ({height_in}) or half of it ({height_in // 2}), give or take 1"
    layer.require(abs(height_out - height_in // 2) <= 1, "height-out", rule)
    even = layer["num-bottleneck-filters"] > 0 or layer["time-period"] % 2 == 0
    layer.require(even, "time-period", "must be even if height-out is half of height-in")


def _expand_res2_block(layer: Layer, expander: Expander) -> None:
    height_in, height_out, period = layer["height-in"], layer["height-out"], layer["time-period"]
    filters_in, filters_out = filters_of_input(layer, "height-in"), layer["num-filters"]
    narrow = layer["num-bottleneck-filters"]
    step = 1 if height_in == height_out else 2
    around, first_around = _around(period), _around(period // step)
    convolutions = [(filters_in, filters_out, "-1,0,1", first_around), (filters_out, filters_out, "-1,0,1", around)]
    if narrow > 0:
        convolutions = [
            (filters_in, narrow, "0", "0"),
            (narrow, narrow, "-1,0,1", around),
            (narrow, filters_out, "0", "0"),
        ]
    has_bypass = step == 1 and filters_in == filters_out
    bypass = layer.input if has_bypass else expander("conv_bypass")
    last = layer.input
    for number, (filters, filters_after, heights, times) in enumerate(convolutions, start=1):
        first = number == 1
        subsample = settings(height_subsample_out=step if first else 1)
        convolution = settings(height_in=height_in if first else height_out, height_out=height_out)
        convolution += settings(height_offsets=heights) + (() if narrow > 0 else subsample)
        convolution += settings(time_offsets=times, num_filters_in=filters, num_filters_out=filters_after)
        convolution += subsample if narrow > 0 else ()
        convolution += _padding(layer) + _convolution_settings(layer)
        last = expander.pair(f"conv{number}", CONVOLUTION, convolution, last)
        block = settings(dim=filters_after * height_out, block_dim=filters_after)
        last = expander.pair(f"batchnorm{number}", common.BATCH_NORM, block, last)
        last = expander.pair(f"scaleoffset{number}", common.SCALE_AND_OFFSET, block, last)
        summed = add(last, bypass) if number == len(convolutions) else last
        last = expander.pair(f"relu{number}", common.RELU, block + _repair(layer, number), summed)
    if not has_bypass:
        convolution = settings(
            height_in=height_in,
            height_out=height_out,
            height_offsets=0,
            time_offsets=0,
            height_subsample_out=step,
            num_filters_in=filters_in,
            num_filters_out=filters_out,
        )
        expander.pair("conv_bypass", CONVOLUTION, convolution + _convolution_settings(layer), layer.input)
    expander.output(last, filters_out * height_out)


# ---- what a network shows of the values ----


def _read_bottleneck(found: Found) -> int | None:
    """Returns the filters of the middle one of three convolutions."""
    return found.get("conv1", "num-filters-out") if found.settings("conv3") else None


def _read_period(key: str) -> Read:
    """The second convolution has the whole window in both forms."""

    def read(found: Found) -> int | None:
        offsets = found.get("conv2", key)
        return offsets[-1] if offsets else None

    return read


def _read_bypass(found: Found) -> str:
    """Reads the bypass from the node read by others."""
    if found.settings("noop"):
        return "noop"
    return next((source for source in ("relu", "batchnorm") if found.is_read_outside(f"{source}1")), "input")


_COMMON_READS: Reads = {
    "num-bottleneck-filters": _read_bottleneck,
    "time-period": _read_period("time-offsets"),
    "allow-zero-padding": lambda found: found.get("conv2", "required-time-offsets") == (0,),
    **{
        f"self-repair-lower-threshold{number}": setting("self-repair-lower-threshold", f"relu{number}")
        for number in (1, 2, 3)
    },
}

LAYER_TYPES = (
    LayerType(
        "res-block",
        "A residual block of two or three convolutions, rectified linear units and batch normalisation before each; "
        "the output has the size of the input.",
        (
            Key.of("height", -1, "Height of the image.", above(0)),
            Key.of("num-filters", -1, "Filters of the image.", absent="the input's dimension divided by height"),
            Key.of("height-period", 1, "Heights between those that a convolution looks at.", above(0)),
            Key.of(
                "bypass-source",
                "noop",
                "What is added to the last convolution: in a node of its own the input (noop), or as an expression the "
                "input, the first relu or the first batch normalisation.",
                one_of("noop", "input", "relu", "batchnorm"),
            ),
            *_COMMON_KEYS,
        ),
        _expand_res_block,
        _settle_res_block,
        example="num-filters=64 height=40",
        reads={
            "height": setting("height-in", "conv1"),
            "num-filters": setting("num-filters-in", "conv1"),
            "height-period": _read_period("height-offsets"),
            "bypass-source": _read_bypass,
            **_COMMON_READS,
        },
    ),
    LayerType(
        "res2-block",
        "A residual block of two or three convolutions, batch normalisation and rectified linear units after each; "
        "it may change the number of filters and halve the height.",
        (
            Key.of("height", -1, "Height of the input and output image.", absent="height-in and height-out"),
            Key.of("height-in", -1, "Height of the input image.", absent="height"),
            Key.of("height-out", -1, "Height of the output image: the input's, or half of it.", absent="height"),
            Key.of("num-filters", -1, "Filters of the output image.", above(0)),
            *_COMMON_KEYS,
        ),
        _expand_res2_block,
        _settle_res2_block,
        example="num-filters=128 height-in=40 height-out=20 time-period=2",
        reads={
            "height-in": setting("height-in", "conv1"),
            "height-out": setting("height-out", "conv1"),
            "num-filters": setting("num-filters-out", "conv3", "conv2"),
            **_COMMON_READS,
        },
    ),
)
