"""Keys and component types that several families share, and what is derived in the same way in all of them."""

from __future__ import annotations

from nnet3.base.text import read_number
from nnet3.base.text.values import Rule, above, within
from nnet3.model.xconfig.layer import Key, Layer, options, passed

AFFINE = "NaturalGradientAffineComponent"
BATCH_NORM = "BatchNormComponent"
DROPOUT = "DropoutComponent"
GENERAL_DROPOUT = "GeneralDropoutComponent"
LINEAR = "LinearComponent"
LOG_SOFTMAX = "LogSoftmaxComponent"
NO_OP = "NoOpComponent"
NORMALIZE = "NormalizeComponent"
RELU = "RectifiedLinearComponent"
SCALE_AND_OFFSET = "ScaleAndOffsetComponent"
SIGMOID = "SigmoidComponent"
TANH = "TanhComponent"
TDNN = "TdnnComponent"

DIM = Key.of("dim", -1, "Number of columns of the output.", absent="the dimension of the input")
REQUIRED_DIM = Key.of("dim", -1, "Number of columns of the output.", above(0))
MAX_CHANGE = Key.of("max-change", 0.75, "Largest change of the parameters in one update, as a 2-norm.")
NG_AFFINE_OPTIONS = options("ng-affine-options", "Further settings of the affine component.")
NG_LINEAR_OPTIONS = options("ng-linear-options", "Further settings of the linear component.")
L2_REGULARIZE = passed("l2-regularize", "Constant of the l2 regularization of the parameters.")
L2_REGULARIZE_NUMBER = Key.of("l2-regularize", 0.0, "Constant of the l2 regularization of the parameters.")
LEARNING_RATE_FACTOR = passed("learning-rate-factor", "What the learning rate of this layer is multiplied by.")
PARAM_STDDEV = passed("param-stddev", "Standard deviation of the initial parameters.")
BIAS_STDDEV = passed("bias-stddev", "Standard deviation of the initial bias.")
SELF_REPAIR_SCALE = Key.of(
    "self-repair-scale", 1e-05, "Strength with which units that are nearly always on or off are mended.", within(0, 1)
)
TARGET_RMS = Key.of("target-rms", 1.0, "Root mean square of the normalised values.", above(0))
OBJECTIVES = ("linear", "quadratic")

OPERATION_WORDS = {
    "relu": "rectified linear units",
    "sigmoid": "sigmoids",
    "tanh": "hyperbolic tangents",
    "renorm": "each row normalised to a fixed root mean square",
    "batchnorm": "batch normalisation",
    "so": "a trained scale and offset for each column",
    "dropout": "dropout",
}


def operations_of(layer_type: str) -> list[str]:
    """Returns the operations named by the words of a type such as relu-batchnorm-layer, in the order of application."""
    return layer_type.removesuffix("-layer").split("-")


def dim_of_input(layer: Layer) -> None:
    """Sets a `dim` that is not given, or not positive, to the input's."""
    if layer["dim"] <= 0:
        layer["dim"] = layer.input_dim


def require_node(layer: Layer) -> None:
    """Raises ConfigError if the input is an expression rather than a node."""
    if not layer.input.is_name:
        hint = "put a no-op-component before it"
        raise layer.error(f"the input must be a node, not an expression: it is {layer.input}", "input", hint)


def _positive_number(text: str) -> bool:
    try:
        return not text or read_number(text) > 0
    except ValueError:
        return False


POSITIVE_TEXT = Rule("a number > 0", _positive_number)
