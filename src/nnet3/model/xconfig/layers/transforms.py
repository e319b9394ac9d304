"""Transforms of the input features: fixed-affine-layer, affine-layer, idct-layer, spec-augment-layer, delta-layer."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from nnet3.base.text.values import Rule, at_least, between
from nnet3.model.xconfig.expansion import CONFIGS, FINAL, INIT, REF, WHOLE, Expander
from nnet3.model.xconfig.found import Found, output_dim, setting
from nnet3.model.xconfig.layer import Key, Layer, LayerType
from nnet3.model.xconfig.layers import common
from nnet3.model.xconfig.layers.single_component import INCLUDE_IN_INIT
from nnet3.model.xconfig.statements import DimRangeStatement, settings
from nnet3.model.xconfig.term import Term, add, append, name, offset, scale

FIXED_AFFINE = "FixedAffineComponent"
_LARGEST_MATRIX = 10**7
_FILE_READS = {"dim": output_dim(""), "affine-transform-file": lambda found: f"{found.name}.mat"}
_FILE = Key.of("affine-transform-file", "", "File of the matrix.", Rule("the name of a file", bool))


def _expand_fixed_affine(layer: Layer, expander: Expander) -> None:
    input_dim, dim = layer.input_dim, layer["dim"]
    if layer["write-init-config"]:
        expander.configs = (INIT,)
        spliced = layer.input
        if layer["delay"]:
            delayed = expander.pair("delayed", common.NO_OP, settings(dim=input_dim), layer.input)
            spliced = offset(delayed, layer["delay"])
        expander.output_node(spliced, name="output")
    expander.configs = (FINAL,)
    expander.component("", FIXED_AFFINE, settings(matrix=layer["affine-transform-file"]))
    expander.configs = (REF,)
    expander.component("", FIXED_AFFINE, settings(input_dim=input_dim, output_dim=dim))
    expander.configs = WHOLE
    expander.output(expander.node("", "", layer.input), dim)


def _settle_affine(layer: Layer) -> None:
    common.dim_of_input(layer)
    if layer["param-stddev"] < 0:
        layer["param-stddev"] = 1.0 / math.sqrt(layer.input_dim)


def _expand_affine(layer: Layer, expander: Expander) -> None:
    values = settings(input_dim=layer.input_dim, output_dim=layer["dim"])
    values += layer.given_settings("param-stddev", "bias-stddev", "bias-mean", "max-change", "l2-regularize")
    values += layer.options("ng-affine-options")
    expander.output(expander.pair("", common.AFFINE, values, layer.input), layer["dim"])


def _lifter_coefficients(input_dim: int, lifter: float) -> list[float]:
    """Returns the divisors of an inverse cosine transform's columns. Raises ArithmeticError or ValueError."""
    if lifter == 0:
        return [1.0] * input_dim
    return [1.0 + 0.5 * lifter * math.sin(math.pi * k / lifter) for k in range(input_dim)]


@lru_cache(maxsize=16)
def idct_matrix(input_dim: int, output_dim: int, lifter: float) -> np.ndarray:
    """Returns the inverse of a discrete cosine transform and of liftering, with a last column of zeros, the bias.

    (output_dim, input_dim + 1), float64, read-only.
    """
    matrix = np.zeros((output_dim, input_dim + 1))
    factor = math.sqrt(2.0 / output_dim)
    for row in range(output_dim):
        angle = math.pi / output_dim * (row + 0.5)
        matrix[row, :input_dim] = [factor * math.cos(angle * k) for k in range(input_dim)]
    matrix[:, 0] = math.sqrt(1.0 / output_dim)
    matrix[:, :input_dim] /= _lifter_coefficients(input_dim, lifter)
    matrix.flags.writeable = False
    return matrix


def _settle_idct(layer: Layer) -> None:
    common.dim_of_input(layer)
    fits = layer["dim"] * (layer.input_dim + 1) <= _LARGEST_MATRIX
    layer.require(fits, "dim", f"times the input's dimension ({layer.input_dim}) must be at most {_LARGEST_MATRIX}")
    try:
        divisors = _lifter_coefficients(layer.input_dim, layer["cepstral-lifter"])
    except (ArithmeticError, ValueError):
        divisors = [0.0]
    usable = all(divisor != 0 and math.isfinite(divisor) for divisor in divisors)
    layer.require(usable, "cepstral-lifter", "must not make the matrix divide by 0")


def _expand_idct(layer: Layer, expander: Expander) -> None:
    matrix = idct_matrix(layer.input_dim, layer["dim"], layer["cepstral-lifter"])
    expander.matrix_file(layer["affine-transform-file"], matrix)
    expander.configs = CONFIGS if layer["include-in-init"] else WHOLE
    file = settings(matrix=layer["affine-transform-file"])
    expander.output(expander.pair("", FIXED_AFFINE, file, layer.input), layer["dim"])


def _expand_spec_augment(layer: Layer, expander: Expander) -> None:
    expander.configs = CONFIGS if layer["include-in-init"] else WHOLE
    dim = layer.input_dim
    bands = settings(dim=dim, specaugment_max_proportion=layer["freq-max-proportion"])
    last = expander.pair("freq-mask", common.GENERAL_DROPOUT, bands, layer.input)
    frames = settings(dim=dim, zeroed_proportion=layer["time-zeroed-proportion"])
    frames += layer.given_settings("time-mask-max-frames")
    expander.output(expander.pair("time-mask", "SpecAugmentTimeMaskComponent", frames, last), dim)


def _expand_delta(layer: Layer, expander: Expander) -> None:
    """x(t), x(t+1) - x(t-1) and x(t-2) - 2x(t) + x(t+2); a node can have one scale in a sum, so it has copies."""
    x, dim = layer.input, layer.input_dim
    first, second, spliced = (f"{x.name}_{suffix}" for suffix in ("copy1", "copy2", "2"))
    for copy in (first, second):
        expander.state(DimRangeStatement(copy, x.name, dim, 0))

    def later(time: int) -> Term:
        return offset(x, time, tight=True)

    minus_one = offset(scale(-1.0, name(first), tight=True), -1, tight=True)
    minus_two = offset(scale(-2.0, name(second), tight=True), 0, tight=True)
    terms = append(later(0), add(minus_one, later(1)), add(later(-2), later(2), minus_two))
    last = expander.named_pair(spliced, common.NO_OP, settings(dim=3 * dim), terms)
    expander.output(expander.pair("", common.BATCH_NORM, settings(dim=3 * dim), last), 3 * dim)


def _read_delta_input(found: Found) -> Term | None:
    """Returns the node after which the spliced node is named."""
    spliced = found.term()
    return name(spliced.name.removesuffix("_2")) if spliced is not None and spliced.is_name else None


LAYER_TYPES = (
    LayerType(
        "fixed-affine-layer",
        "An affine transform that is not trained, such as LDA, read from a file.",
        (
            common.DIM,
            _FILE,
            Key.of("delay", 0, "Frames by which the output of init.config lags behind; it does nothing else."),
            Key.of("write-init-config", True, "Whether init.config has an output that is the input of this layer."),
        ),
        _expand_fixed_affine,
        common.dim_of_input,
        example="input=Append(-1,0,1,ReplaceIndex(ivector, t, 0)) affine-transform-file=lda.mat",
        reads=_FILE_READS,
    ),
    LayerType(
        "affine-layer",
        "An affine transform with the initial parameters that training of old had.",
        (
            common.DIM,
            Key.of(
                "param-stddev",
                -1.0,
                "Standard deviation of the initial parameters.",
                absent="1 over the root of the input's dimension",
            ),
            Key.of("bias-stddev", 1.0, "Standard deviation of the initial bias."),
            Key.of("bias-mean", 0.0, "Mean of the initial bias."),
            common.MAX_CHANGE,
            common.L2_REGULARIZE_NUMBER,
            Key.of("learning-rate-factor", 1.0, "Not used, as in Kaldi."),
            common.NG_AFFINE_OPTIONS,
        ),
        _expand_affine,
        _settle_affine,
        example="dim=512",
        reads={"dim": output_dim("")},
    ),
    LayerType(
        "idct-layer",
        "The inverse of the discrete cosine transform and the liftering of MFCCs: filter banks. The matrix is written "
        "to a file.",
        (
            common.DIM,
            Key.of("cepstral-lifter", 22.0, "The liftering that the MFCCs were made with; 0: none."),
            _FILE,
            INCLUDE_IN_INIT,
        ),
        _expand_idct,
        _settle_idct,
        example="dim=40 cepstral-lifter=22 affine-transform-file=idct.mat",
        reads=_FILE_READS,
    ),
    LayerType(
        "spec-augment-layer",
        "SpecAugment: in training, a band of columns and some stretches of frames are set to zero.",
        (
            Key.of("freq-max-proportion", 0.5, "Largest proportion of the columns that is zeroed.", between(0, 1)),
            Key.of("time-zeroed-proportion", 0.2, "Proportion of the frames that is zeroed.", between(0, 1)),
            Key.of("time-mask-max-frames", 20, "Longest stretch of frames that is zeroed.", at_least(1)),
            INCLUDE_IN_INIT,
        ),
        _expand_spec_augment,
        reads={
            "freq-max-proportion": setting("specaugment-max-proportion", "freq-mask"),
            "time-zeroed-proportion": setting("zeroed-proportion", "time-mask"),
        },
    ),
    LayerType(
        "delta-layer",
        "The input with its first and second differences over time, batch-normalised.",
        (),
        _expand_delta,
        common.require_node,
        reads={"input": _read_delta_input},
    ),
)
