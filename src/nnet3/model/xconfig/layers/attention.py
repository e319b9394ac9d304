"""Self-attention over a window of frames: attention-renorm-layer and its family."""

from __future__ import annotations

import math

from nnet3.base.text.values import above, at_least
from nnet3.model.xconfig.expansion import Expander
from nnet3.model.xconfig.layer import Key, Layer, LayerType
from nnet3.model.xconfig.layers import common
from nnet3.model.xconfig.statements import Settings, settings

_KEYS = (
    Key.of("dim", -1, "Not used, as in Kaldi: dimensions follow from the heads.", absent="the dimension of the input"),
    common.MAX_CHANGE,
    common.SELF_REPAIR_SCALE,
    Key.of("target-rms", 1.0, "Root mean square of the normalised values.", at_least(0)),
    Key.of("learning-rate-factor", 1.0, "What the learning rate of the affine transform is multiplied by.", above(0)),
    common.NG_AFFINE_OPTIONS,
    Key.of("l2-regularize", 0.0, "Constant of the l2 regularization of the affine transform."),
    Key.of("num-heads", 1, "Number of heads.", above(0)),
    Key.of("key-dim", -1, "Dimension of a key.", above(0)),
    Key.of("value-dim", -1, "Dimension of a value.", above(0)),
    Key.of("num-left-inputs", -1, "Steps to the left that a head looks at.", at_least(0)),
    Key.of("num-right-inputs", -1, "Steps to the right that a head looks at.", at_least(0)),
    Key.of("num-left-inputs-required", -1, "Those of them that must be there.", absent="all"),
    Key.of("num-right-inputs-required", -1, "Those of them that must be there.", absent="all"),
    Key.of(
        "key-scale", 0.0, "What products of keys and queries are multiplied by.", absent="1 over the root of key-dim"
    ),
    Key.of("output-context", True, "Whether the attention weights are part of the output."),
    Key.of("time-stride", 1, "Frames between two steps."),
    Key.of("dropout-proportion", 0.5, "Not used, as in Kaldi."),
)
_WORDS = {**common.OPERATION_WORDS, "attention": "attention of some heads over a window of frames"}


def _settle(layer: Layer) -> None:
    common.dim_of_input(layer)
    if layer["key-scale"] == 0:
        layer["key-scale"] = 1.0 / math.sqrt(layer["key-dim"])


def _affine(layer: Layer, dim: int) -> Settings:
    values = settings(input_dim=layer.input_dim, output_dim=dim) + layer.given_settings("max-change")
    values += layer.options("ng-affine-options")
    values += layer.given_settings("learning-rate-factor") if layer["learning-rate-factor"] != 1 else ()
    values += layer.given_settings("l2-regularize") if layer["l2-regularize"] != 0 else ()
    return values


def _attention(layer: Layer) -> Settings:
    values = layer.given_settings("value-dim", "key-dim", "num-left-inputs", "num-right-inputs")
    values += layer.given_settings("num-left-inputs-required", "num-right-inputs-required")
    values += settings(output_context=str(layer["output-context"]))
    return values + layer.given_settings("time-stride", "num-heads", "key-scale")


def _expand(layer: Layer, expander: Expander) -> None:
    heads, value_dim, key_dim = layer["num-heads"], layer["value-dim"], layer["key-dim"]
    width = layer["num-left-inputs"] + layer["num-right-inputs"] + 1
    dim = heads * (key_dim + value_dim + key_dim + width)  # keys, values, queries
    last = expander.pair("affine", common.AFFINE, _affine(layer, dim), layer.input)
    for operation in common.operations_of(layer.type.name):
        if operation == "attention":
            last = expander.pair(operation, "RestrictedAttentionComponent", _attention(layer), last)
            dim = heads * (value_dim + (width if layer["output-context"] else 0))
            continue
        component, key = {
            "relu": (common.RELU, "self-repair-scale"),
            "renorm": (common.NORMALIZE, "target-rms"),
            "batchnorm": (common.BATCH_NORM, "target-rms"),
        }[operation]
        last = expander.pair(operation, component, settings(dim=dim) + layer.given_settings(key), last)
    expander.output(last, dim)


def _attention_type(name: str) -> LayerType:
    summary = "An affine transform to keys, values and queries, then "
    summary += ", then ".join(_WORDS[operation] for operation in common.operations_of(name)) + "."
    example = "num-heads=15 key-dim=40 value-dim=80 num-left-inputs=5 num-right-inputs=2 time-stride=3"
    return LayerType(name, summary, _KEYS, _expand, _settle, example=example)


LAYER_TYPES = tuple(
    _attention_type(name)
    for name in (
        "attention-renorm-layer",
        "attention-relu-renorm-layer",
        "attention-relu-batchnorm-layer",
        "relu-renorm-attention-layer",
    )
)
