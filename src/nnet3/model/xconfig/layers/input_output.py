"""Inputs and outputs of a network: input, output, output-layer."""

from __future__ import annotations

import math

from nnet3.base.text.values import Rule, above, one_of
from nnet3.model.xconfig.expansion import CONFIGS, Expander
from nnet3.model.xconfig.found import has, objective, output_delay, output_dim, setting
from nnet3.model.xconfig.layer import Key, Layer, LayerType
from nnet3.model.xconfig.layers import common
from nnet3.model.xconfig.statements import InputNodeStatement, settings
from nnet3.model.xconfig.term import Term, offset

_OBJECTIVE = Key.of(
    "objective-type", "linear", "Objective that training takes of this output.", one_of(*common.OBJECTIVES)
)
_OUTPUT_DELAY = Key.of("output-delay", 0, "Frames by which the output lags behind: it is taken that much later.")


def _expand_input(layer: Layer, expander: Expander) -> None:
    expander.configs = CONFIGS
    expander.state(InputNodeStatement(layer.name, layer["dim"]))
    expander.output(expander(), layer["dim"])


def _delayed(layer: Layer, last: Term) -> Term:
    return offset(last, layer["output-delay"]) if layer["output-delay"] else last


def _expand_output(layer: Layer, expander: Expander) -> None:
    expander.output_node(_delayed(layer, layer.input), layer["objective-type"])


def _settle_output_layer(layer: Layer) -> None:
    common.dim_of_input(layer)
    smallest = min(layer.input_dim, layer["dim"])
    fits = layer["bottleneck-dim"] < smallest
    layer.require(fits, "bottleneck-dim", f"must be < {smallest}, the dimension of the input and of the output")


def _expand_output_layer(layer: Layer, expander: Expander) -> None:
    last, dim, bottleneck_dim = layer.input, layer.input_dim, layer["bottleneck-dim"]
    if bottleneck_dim > 0:
        constraint = layer["orthonormal-constraint"]
        linear = settings(
            orthonormal_constraint=constraint,
            param_stddev=constraint / math.sqrt(dim),
            input_dim=dim,
            output_dim=bottleneck_dim,
            max_change=0.75,
        )
        linear += layer.options("ng-linear-options")
        linear += layer.given_settings("learning-rate-factor", "l2-regularize", "max-change")
        last, dim = expander.pair("linear", common.LINEAR, linear, last), bottleneck_dim
    affine = settings(input_dim=dim, output_dim=layer["dim"]) + layer.options("ng-affine-options")
    affine += layer.given_settings("learning-rate-factor", "l2-regularize", "max-change", "param-stddev", "bias-stddev")
    last = expander.pair("affine", common.AFFINE, affine, last)
    expander.auxiliary("affine", layer["dim"])
    if layer["include-log-softmax"]:
        last = expander.pair("log-softmax", common.LOG_SOFTMAX, settings(dim=layer["dim"]), last)
        expander.auxiliary("log-softmax", layer["dim"])
    expander.output_node(_delayed(layer, last), layer["objective-type"])


_BOTTLENECK_RULE = Rule("< 0 (none) or > 0, and less than the dimensions of input and output", lambda value: value != 0)

LAYER_TYPES = (
    LayerType(
        "input",
        "An input of the network: features, or an ivector for each sequence.",
        (Key.of("dim", -1, "Number of columns of the input.", above(0)),),
        _expand_input,
        example="dim=40",
        has_input=False,
        reads={"dim": lambda found: getattr(found.node(), "dim", None)},
    ),
    LayerType(
        "output",
        "An output of the network without any component: what its input is.",
        (
            Key.of(
                "dim", -1, "Not used; the output has the dimension of its input.", absent="the dimension of the input"
            ),
            _OBJECTIVE,
            _OUTPUT_DELAY,
        ),
        _expand_output,
        common.dim_of_input,
        example="",
        reads={"objective-type": objective},
    ),
    LayerType(
        "output-layer",
        "An affine transform, after it a log-softmax unless told otherwise, as an output of the network. "
        "Other layers can take NAME.affine or NAME.log-softmax as their input.",
        (
            common.DIM,
            Key.of(
                "bottleneck-dim",
                -1,
                "Dimension of a linear transform with orthonormal rows before the affine one.",
                _BOTTLENECK_RULE,
                absent="no such transform",
            ),
            Key.of("orthonormal-constraint", 1.0, "Scale of the orthonormal rows of that transform.", above(0)),
            Key.of("include-log-softmax", True, "Whether the output is a log-softmax; LF-MMI training wants none."),
            _OBJECTIVE,
            _OUTPUT_DELAY,
            common.NG_AFFINE_OPTIONS,
            common.NG_LINEAR_OPTIONS,
            common.LEARNING_RATE_FACTOR,
            common.L2_REGULARIZE,
            Key.of("max-change", 1.5, "Largest change of the parameters in one update, as a 2-norm."),
            Key.of("param-stddev", 0.0, "Standard deviation of the initial parameters."),
            Key.of("bias-stddev", 0.0, "Standard deviation of the initial bias."),
        ),
        _expand_output_layer,
        _settle_output_layer,
        example="dim=200",
        reads={
            "dim": output_dim("affine"),
            "bottleneck-dim": output_dim("linear"),
            "orthonormal-constraint": setting("orthonormal-constraint", "linear"),
            "include-log-softmax": has("log-softmax"),
            "objective-type": objective,
            "output-delay": output_delay,
            "max-change": setting("max-change", "affine"),
        },
    ),
)
