"""Layers that are one component, or a range of columns, with the name of the layer."""

from __future__ import annotations

from collections.abc import Callable

from nnet3.base.text.values import Rule, at_least
from nnet3.model.xconfig.expansion import CONFIGS, Expander
from nnet3.model.xconfig.found import output_dim
from nnet3.model.xconfig.layer import Key, Layer, LayerType, passed
from nnet3.model.xconfig.layers import common
from nnet3.model.xconfig.statements import DimRangeStatement, settings

_TRAINED = ("orthonormal-constraint", "max-change", "l2-regularize", "param-stddev")
_CONSTRAINT = passed("orthonormal-constraint", "Scale of the orthonormal rows; negative: any scale; 0: no constraint.")
_PARAM_MEAN = passed("param-mean", "Mean of the initial parameters.")
INCLUDE_IN_INIT = Key.of("include-in-init", False, "Whether the layer is in init.config too.")
_ELEMENT_KEYS = (common.L2_REGULARIZE, common.MAX_CHANGE, _PARAM_MEAN, common.PARAM_STDDEV, common.LEARNING_RATE_FACTOR)
_ELEMENT_SETTINGS = ("learning-rate-factor", "max-change", "l2-regularize", "param-mean", "param-stddev")


def _transform(component: str, *keys: str) -> Callable[[Layer, Expander], None]:
    """Expands a component with an input and an output dimension."""

    def expand(layer: Layer, expander: Expander) -> None:
        dims = settings(input_dim=layer.input_dim, output_dim=layer["dim"])
        expander.output(expander.pair("", component, dims + layer.given_settings(*keys), layer.input), layer["dim"])

    return expand


def _elementwise(component: str, *keys: str) -> Callable[[Layer, Expander], None]:
    """Expands a component that keeps the dimension."""

    def expand(layer: Layer, expander: Expander) -> None:
        expander.configs = CONFIGS if layer.values.get("include-in-init") else expander.configs
        values = settings(dim=layer.input_dim) + layer.given_settings(*keys)
        expander.output(expander.pair("", component, values, layer.input), layer.input_dim)

    return expand


def _settle_range(layer: Layer) -> None:
    common.dim_of_input(layer)
    available = layer.input_dim - layer["dim-offset"]
    layer.require(
        layer["dim"] <= available, "dim", f"must be <= {available}, the columns that the input has from there on"
    )
    common.require_node(layer)


def _expand_range(layer: Layer, expander: Expander) -> None:
    expander.state(DimRangeStatement(layer.name, layer.input.name, layer["dim"], layer["dim-offset"]))
    expander.output(expander(), layer["dim"])


LAYER_TYPES = (
    LayerType(
        "affine-component",
        "An affine transform.",
        (common.DIM, _CONSTRAINT, common.MAX_CHANGE, common.PARAM_STDDEV, common.BIAS_STDDEV, common.L2_REGULARIZE),
        _transform(common.AFFINE, *_TRAINED, "bias-stddev"),
        common.dim_of_input,
        example="dim=512",
        reads={"dim": output_dim("")},
    ),
    LayerType(
        "linear-component",
        "A linear transform, without a bias.",
        (
            *(common.DIM, _CONSTRAINT, common.MAX_CHANGE, common.L2_REGULARIZE),
            *(common.PARAM_STDDEV, common.LEARNING_RATE_FACTOR),
        ),
        _transform(common.LINEAR, *_TRAINED, "learning-rate-factor"),
        common.dim_of_input,
        example="dim=256 orthonormal-constraint=-1.0",
        reads={"dim": output_dim("")},
    ),
    LayerType(
        "renorm-component",
        "Each row normalised to a fixed root mean square.",
        (common.TARGET_RMS,),
        _elementwise(common.NORMALIZE, "target-rms"),
    ),
    LayerType(
        "batchnorm-component",
        "Batch normalisation.",
        (common.TARGET_RMS, INCLUDE_IN_INIT),
        _elementwise(common.BATCH_NORM, "target-rms"),
    ),
    LayerType(
        "no-op-component",
        "Nothing but a name for an input, for instance for an expression.",
        (),
        _elementwise(common.NO_OP),
        example="input=Append(-1, 0, 1)",
    ),
    LayerType(
        "scale-component",
        "A trained scale for each column.",
        _ELEMENT_KEYS,
        _elementwise("NaturalGradientPerElementScaleComponent", *_ELEMENT_SETTINGS),
    ),
    LayerType(
        "offset-component",
        "A trained offset for each column.",
        _ELEMENT_KEYS,
        _elementwise("PerElementOffsetComponent", *_ELEMENT_SETTINGS),
    ),
    LayerType(
        "dim-range-component",
        "Some consecutive columns of the input.",
        (
            Key.of(
                "dim",
                -1,
                "How many columns.",
                Rule("<= those that the input has", lambda value: True),
                absent="the dimension of the input",
            ),
            Key.of("dim-offset", 0, "The first of the columns, counted from 0.", at_least(0)),
        ),
        _expand_range,
        _settle_range,
        example="dim=20 dim-offset=10",
        reads={
            "dim": lambda found: getattr(found.node(), "dim", None),
            "dim-offset": lambda found: getattr(found.node(), "dim_offset", None),
        },
    ),
)
