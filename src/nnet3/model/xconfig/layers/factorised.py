"""Factorised layers: tdnnf-layer and prefinal-layer."""

from __future__ import annotations

from nnet3.base.text.values import Rule, above, one_of
from nnet3.model.xconfig.expansion import Expander
from nnet3.model.xconfig.found import Found, output_dim, scale_in, shown
from nnet3.model.xconfig.layer import Key, Layer, LayerType
from nnet3.model.xconfig.layers import common
from nnet3.model.xconfig.statements import settings
from nnet3.model.xconfig.term import add, scale

_CONTEXTS = ("default", "left-only", "shift-left", "none")
_SELF_REPAIR_SCALE = Key.of(
    "self-repair-scale", 1e-05, "Strength with which units that are nearly always on or off are mended."
)


def _time_offsets(context: str, stride: int) -> tuple[str, str]:
    """Returns the frames that the linear part and the affine part look at."""
    if stride == 0 or context == "none":
        return "0", "0"
    before, after = f"{-stride},0", f"0,{stride}"
    return before, {"default": after, "shift-left": before, "left-only": "0"}[context]


def _settle_tdnnf(layer: Layer) -> None:
    bottleneck_dim, dim = layer["bottleneck-dim"], layer["dim"]
    layer.require(dim > bottleneck_dim, "dim", f"must be > bottleneck-dim ({bottleneck_dim})")
    fits = layer["bypass-scale"] == 0 or dim == layer.input_dim
    layer.require(fits, "dim", f"must be the dimension of the input ({layer.input_dim}) unless bypass-scale=0")


def _expand_tdnnf(layer: Layer, expander: Expander) -> None:
    dim, bottleneck_dim = layer["dim"], layer["bottleneck-dim"]
    before, after = _time_offsets(layer["context"], layer["time-stride"])
    trained = layer.given_settings("l2-regularize", "max-change")
    linear = settings(input_dim=layer.input_dim, output_dim=bottleneck_dim) + trained
    linear += settings(use_bias=False, time_offsets=before, orthonormal_constraint=-1.0)
    last = expander.pair("linear", common.TDNN, linear, layer.input)
    affine = settings(input_dim=bottleneck_dim, output_dim=dim) + trained + settings(time_offsets=after)
    last = expander.pair("affine", common.TDNN, affine, last)
    last = expander.pair("relu", common.RELU, settings(dim=dim) + layer.given_settings("self-repair-scale"), last)
    last = expander.pair("batchnorm", common.BATCH_NORM, settings(dim=dim), last)
    if layer["dropout-proportion"] != -1:
        dropout = settings(dim=dim, dropout_proportion=layer["dropout-proportion"], continuous=True)
        last = expander.pair("dropout", common.GENERAL_DROPOUT, dropout, last)
    if layer["bypass-scale"] != 0:
        bypass = scale(layer["bypass-scale"], layer.input)
        last = expander.pair("noop", common.NO_OP, settings(dim=dim), add(bypass, last))
    expander.output(last, dim)


def _settle_prefinal(layer: Layer) -> None:
    small_dim = layer["small-dim"]
    layer.require(layer["big-dim"] > small_dim, "big-dim", f"must be > small-dim ({small_dim})")


def _expand_prefinal(layer: Layer, expander: Expander) -> None:
    big_dim, small_dim = layer["big-dim"], layer["small-dim"]
    trained = layer.given_settings("l2-regularize", "max-change")
    affine = settings(input_dim=layer.input_dim, output_dim=big_dim) + trained
    last = expander.pair("affine", common.AFFINE, affine, layer.input)
    last = expander.pair("relu", common.RELU, settings(dim=big_dim) + layer.given_settings("self-repair-scale"), last)
    last = expander.pair("batchnorm1", common.BATCH_NORM, settings(dim=big_dim), last)
    linear = settings(input_dim=big_dim, output_dim=small_dim) + trained + settings(orthonormal_constraint=-1)
    last = expander.pair("linear", common.LINEAR, linear, last)
    last = expander.pair("batchnorm2", common.BATCH_NORM, settings(dim=small_dim), last)
    expander.output(last, small_dim)


def _read_stride(found: Found) -> int | None:
    """Returns the time-stride, which the linear part has with the other sign."""
    offsets = found.get("linear", "time-offsets")
    return -offsets[0] if offsets else None


def _read_context(found: Found) -> str | None:
    offsets = tuple(shown(found.get(suffix, "time-offsets") or ()) for suffix in ("linear", "affine"))
    return next((c for c in _CONTEXTS if _time_offsets(c, _read_stride(found) or 0) == offsets), None)


def _read_bypass(found: Found) -> float:
    scale = scale_in("noop")(found)
    return 0.0 if scale is None else float(scale)


LAYER_TYPES = (
    LayerType(
        "tdnnf-layer",
        "A factorised TDNN layer: a linear transform with orthonormal rows to a bottleneck, an affine one out of it, "
        "each over two frames, then rectified linear units, batch normalisation and a bypass round all of it.",
        (
            common.REQUIRED_DIM,
            Key.of("bottleneck-dim", -1, "Dimension between the two transforms.", above(0)),
            Key.of(
                "bypass-scale",
                0.66,
                "What the layer's input is multiplied by before it is added to the output; 0: no bypass.",
                Rule("within [-1, 1]; unless it is 0, dim must be the input's", lambda value: abs(value) <= 1),
            ),
            Key.of(
                "dropout-proportion",
                -1.0,
                "Proportion of continuous dropout.",
                Rule("-1 (none) or >= 0 and < 1", lambda value: value == -1 or 0 <= value < 1),
                absent="no dropout",
            ),
            Key.of("time-stride", 1, "Frames between those that a transform looks at; 0: one frame only."),
            common.L2_REGULARIZE_NUMBER,
            common.MAX_CHANGE,
            _SELF_REPAIR_SCALE,
            Key.of("context", "default", "Which frames the two transforms look at.", one_of(*_CONTEXTS)),
        ),
        _expand_tdnnf,
        _settle_tdnnf,
        example="dim=1536 bottleneck-dim=160 time-stride=3",
        reads={
            "dim": output_dim("affine"),
            "bottleneck-dim": output_dim("linear"),
            "bypass-scale": _read_bypass,
            "time-stride": _read_stride,
            "context": _read_context,
        },
    ),
    LayerType(
        "prefinal-layer",
        "An affine transform, rectified linear units and batch normalisation, then a linear transform with orthonormal "
        "rows to a smaller dimension and batch normalisation: what TDNN-F networks have before an output.",
        (
            Key.of("big-dim", -1, "Dimension of the affine transform.", Rule("> small-dim", lambda value: value > 0)),
            Key.of("small-dim", -1, "Number of columns of the output.", above(0)),
            common.L2_REGULARIZE_NUMBER,
            common.MAX_CHANGE,
            _SELF_REPAIR_SCALE,
        ),
        _expand_prefinal,
        _settle_prefinal,
        example="big-dim=1536 small-dim=256",
        reads={"big-dim": output_dim("affine"), "small-dim": output_dim("linear")},
    ),
)
