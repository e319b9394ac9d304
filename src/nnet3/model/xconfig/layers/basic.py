"""An affine transform and nonlinearities after it: relu-batchnorm-layer and its family.

The words of the type before `-layer` are the nonlinearities, in the order in which they are applied.
"""

from __future__ import annotations

from dataclasses import replace

from nnet3.base.text.values import Rule, Text, at_least
from nnet3.model.xconfig.expansion import Expander
from nnet3.model.xconfig.found import output_dim, setting
from nnet3.model.xconfig.layer import Key, Layer, LayerType
from nnet3.model.xconfig.layers import common
from nnet3.model.xconfig.statements import Settings, settings

_KEYS = (
    common.DIM,
    Key.of(
        "bottleneck-dim",
        -1,
        "Dimension of a linear transform with orthonormal rows before the affine one.",
        Rule("< 0 (none) or > 0, and less than dim", lambda value: value != 0),
        absent="no such transform",
    ),
    common.SELF_REPAIR_SCALE,
    Key.of("target-rms", 1.0, "Root mean square of the normalised values.", at_least(0)),
    common.NG_AFFINE_OPTIONS,
    common.NG_LINEAR_OPTIONS,
    Key.of("dropout-proportion", 0.5, "Proportion of values that dropout, if there is some, zeroes in training."),
    Key.of("dropout-per-dim", False, "Whether dropout takes the same columns in all frames of a sequence."),
    Key.of("dropout-per-dim-continuous", False, "The same with random scales instead of zeros."),
    Key.of("add-log-stddev", False, "Whether a last renorm adds the logarithm of the root mean square as a column."),
    common.BIAS_STDDEV,
    common.L2_REGULARIZE,
    replace(common.LEARNING_RATE_FACTOR, kind=Text(common.POSITIVE_TEXT)),
    common.MAX_CHANGE,
)


def _settle(layer: Layer) -> None:
    common.dim_of_input(layer)
    dim = layer["dim"]
    layer.require(layer["bottleneck-dim"] < dim, "bottleneck-dim", f"must be < dim ({dim})")
    if layer["add-log-stddev"]:
        last = common.operations_of(layer.type.name)[-1]
        layer.require(last == "renorm", "add-log-stddev", "can be true only if renorm comes last")
        layer.require(dim > 1, "dim", "must be > 1 if one of the columns is the logarithm")


def _expand(layer: Layer, expander: Expander) -> None:
    last, input_dim, bottleneck_dim = layer.input, layer.input_dim, layer["bottleneck-dim"]
    dim = layer["dim"] - layer["add-log-stddev"]
    if bottleneck_dim > 0:
        linear = settings(input_dim=input_dim, orthonormal_constraint=1.0, output_dim=bottleneck_dim)
        linear += layer.options("ng-linear-options") + layer.given_settings("max-change", "learning-rate-factor")
        last, input_dim = expander.pair("linear", common.LINEAR, linear, last), bottleneck_dim
    affine = settings(input_dim=input_dim, output_dim=dim) + layer.options("ng-affine-options")
    affine += layer.given_settings("max-change", "learning-rate-factor", "bias-stddev", "l2-regularize")
    last = expander.pair("affine", common.AFFINE, affine, last)
    operations = common.operations_of(layer.type.name)
    for operation in operations:
        component, values = _operation(layer, operation, operation == operations[-1])
        last = expander.pair(operation, component, settings(dim=dim) + values, last)
    expander.output(last, layer["dim"])


def _operation(layer: Layer, operation: str, is_last: bool) -> tuple[str, Settings]:
    """Returns the component type of a nonlinearity, and settings besides the dimension."""
    repair = layer.given_settings("self-repair-scale")
    target_rms = layer.given_settings("target-rms")
    if operation == "renorm":
        return common.NORMALIZE, target_rms + settings(add_log_stddev=layer["add-log-stddev"] and is_last)
    if operation == "dropout":
        continuous = layer["dropout-per-dim-continuous"]
        per_dim = layer["dropout-per-dim"] or continuous
        values = layer.given_settings("dropout-proportion") + settings(continuous="true" if continuous else "")
        return common.GENERAL_DROPOUT if per_dim else common.DROPOUT, values
    return {
        "relu": (common.RELU, repair),
        "sigmoid": (common.SIGMOID, repair),
        "tanh": (common.TANH, repair),
        "batchnorm": (common.BATCH_NORM, target_rms),
        "so": (common.SCALE_AND_OFFSET, settings(max_change=0.5)),
    }[operation]


def _basic(name: str) -> LayerType:
    operations = common.operations_of(name)
    words = ", then ".join(common.OPERATION_WORDS[operation] for operation in operations)
    summary = f"An affine transform, then {words}."
    reads = {
        "dim": output_dim(operations[-1]),
        "bottleneck-dim": output_dim("linear"),
        "dropout-per-dim": lambda found: found.get("dropout", "type") == common.GENERAL_DROPOUT,
        "dropout-per-dim-continuous": setting("continuous", "dropout"),
        "l2-regularize": setting("l2-regularize", "affine"),
    }
    return LayerType(name, summary, _KEYS, _expand, _settle, example="dim=512 input=Append(-1,0,1)", reads=reads)


LAYER_TYPES = tuple(
    _basic(name)
    for name in (
        "relu-layer",
        "relu-renorm-layer",
        "relu-batchnorm-layer",
        "relu-batchnorm-dropout-layer",
        "relu-dropout-layer",
        "relu-batchnorm-so-layer",
        "batchnorm-so-relu-layer",
        "batchnorm-layer",
        "sigmoid-layer",
        "tanh-layer",
    )
)
