"""Each component of nnet2 gives in nnet3 what its definition says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from nnet3.errors import ModelFormatError
from nnet3.model.nnet import Nnet
from nnet3.model.nnet.older.convert import convert
from nnet3.model.nnet.older.layers import LAYERS
from tests.nnet.older.older_files import Part, affine, layer, nonlinear, of_nnet2, reader, splice, written

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


W, B, V = normal(3, 6), normal(3), normal(6)
FILTERS, PATCH_BIAS = normal(4, 6), normal(4)  # of two frames and three columns
ORDER = np.array([2, 0, 5, 1, 4, 3], np.int32)
SIZES = np.array([1, 3, 2], np.int32)
ONLINE: list[Part] = [
    *(("<RankIn>", 2), ("<RankOut>", 3), ("<UpdatePeriod>", 4), ("<NumSamplesHistory>", 2000.0), ("<Alpha>", 4.0)),
    ("<MaxChangePerSample>", 0.075),
]


def of_groups(function: Callable[..., np.ndarray], size: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: function(x.reshape(len(x), -1, size), axis=2)


def dct_of(x: np.ndarray, size: int, keep: int) -> np.ndarray:
    """Coefficients of each chunk of a row, by their definition."""
    chunks = x.reshape(len(x), -1, size)
    found = np.zeros((len(x), chunks.shape[1], keep))
    for k in range(keep):
        scale = math.sqrt((1 if k == 0 else 2) / size)
        found[:, :, k] = scale * sum(chunks[:, :, n] * math.cos(math.pi / size * (n + 0.5) * k) for n in range(size))
    return found


def patches_of(x: np.ndarray, appended: bool) -> np.ndarray:
    """Two frames of five columns, filters over three columns of both, moved on by two."""
    frames = x.reshape(len(x), 5, 2).transpose(0, 2, 1) if appended else x.reshape(len(x), 2, 5)
    patches = [frames[:, :, begin : begin + 3].reshape(len(x), 6) for begin in (0, 2)]
    return np.concatenate([patch @ FILTERS.T + PATCH_BIAS for patch in patches], 1)


def _convolution(appended: bool, step: int = 2) -> list[Part]:
    sizes: list[Part] = [("<PatchDim>", 3), ("<PatchStep>", step), ("<PatchStride>", 5)]
    flag: list[Part] = [("<AppendedConv>", True)] if appended else []
    values: list[Part] = [("<FilterParams>", FILTERS), ("<BiasParams>", PATCH_BIAS), ("<IsGradient>", False)]
    return layer("Convolutional1dComponent", ("<LearningRate>", 0.1), *sizes, *flag, *values)


def dims(into: int, out: int) -> list[Part]:
    return [("<InputDim>", into), ("<OutputDim>", out)]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def block_affine(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x[:, :3] @ W[:, :3].T[:, :1], x[:, 3:] @ W[:, :3].T[:, 1:2]], 1) + B[:2]


Case = tuple[list[Part], Callable[[np.ndarray], np.ndarray]]
CASES: dict[str, Case] = {
    "AffineComponent": (affine(W, B), lambda x: x @ W.T + B),
    "AffineComponentPreconditioned": (
        affine(W, B, "AffineComponentPreconditioned", ("<Alpha>", 0.1), ("<MaxChange>", 0.0)),
        lambda x: x @ W.T + B,
    ),
    "AffineComponentPreconditionedOnline": (
        affine(W, B, "AffineComponentPreconditionedOnline", *ONLINE),
        lambda x: x @ W.T + B,
    ),
    "BlockAffineComponent": (
        layer(
            "BlockAffineComponent",
            ("<LearningRate>", 0.1),
            ("<NumBlocks>", 2),
            ("<LinearParams>", W[:2, :3]),
            ("<BiasParams>", B[:2]),
        ),
        block_affine,
    ),
    "BlockAffineComponentPreconditioned": (
        layer(
            "BlockAffineComponentPreconditioned",
            *(("<LearningRate>", 0.1), ("<NumBlocks>", 2), ("<LinearParams>", W[:2, :3]), ("<BiasParams>", B[:2])),
            *(("<Alpha>", 4.0), ("<IsGradient>", False)),
        ),
        block_affine,
    ),
    "SigmoidComponent": (nonlinear("SigmoidComponent", 6), lambda x: 1 / (1 + np.exp(-x))),
    "TanhComponent": (nonlinear("TanhComponent", 6), np.tanh),
    "RectifiedLinearComponent": (nonlinear("RectifiedLinearComponent", 6), lambda x: np.maximum(x, 0)),
    "NormalizeComponent": (
        nonlinear("NormalizeComponent", 6),
        lambda x: x / np.sqrt((x**2).mean(1, keepdims=True)),
    ),
    "SoftmaxComponent": (nonlinear("SoftmaxComponent", 6), softmax),
    "LogSoftmaxComponent": (nonlinear("LogSoftmaxComponent", 6), lambda x: np.log(softmax(x))),
    "PowerComponent": (layer("PowerComponent", *dims(6, 6), ("<Power>", 2.0)), np.square),
    "PnormComponent": (layer("PnormComponent", *dims(6, 2), ("<P>", 2.0)), of_groups(np.linalg.norm, 3)),
    "PnormComponent, of all": (layer("PnormComponent", *dims(6, 1), ("<P>", 2.0)), of_groups(np.linalg.norm, 6)),
    "MaxoutComponent": (layer("MaxoutComponent", *dims(6, 2)), of_groups(np.max, 3)),
    "MaxpoolingComponent": (
        layer("MaxpoolingComponent", *dims(12, 6), ("<PoolSize>", 2), ("<PoolStride>", 3)),
        lambda x: x.reshape(len(x), 2, 2, 3).max(2).reshape(len(x), 6),
    ),
    "ScaleComponent": (layer("ScaleComponent", ("<Dim>", 6), ("<Scale>", 1.5)), lambda x: 1.5 * x),
    "DropoutComponent": (
        layer("DropoutComponent", ("<Dim>", 6), ("<DropoutScale>", 0.0), ("<DropoutProportion>", 0.5)),
        lambda x: x,
    ),
    "AdditiveNoiseComponent": (layer("AdditiveNoiseComponent", ("<Dim>", 6), ("<Stddev>", 0.1)), lambda x: x),
    "FixedScaleComponent": (layer("FixedScaleComponent", ("<Scales>", V)), lambda x: x * V),
    "FixedBiasComponent": (layer("FixedBiasComponent", ("<Bias>", V)), lambda x: x + V),
    "FixedAffineComponent": (
        layer("FixedAffineComponent", ("<LinearParams>", W), ("<BiasParams>", B)),
        lambda x: x @ W.T + B,
    ),
    "FixedLinearComponent": (layer("FixedLinearComponent", ("<CuMatrix>", W)), lambda x: x @ W.T),
    "PermuteComponent": (layer("PermuteComponent", ("<Reorder>", ORDER)), lambda x: x[:, np.argsort(ORDER)]),
    "SumGroupComponent": (
        layer("SumGroupComponent", ("<Sizes>", SIZES)),
        lambda x: np.stack([x[:, :1].sum(1), x[:, 1:4].sum(1), x[:, 4:].sum(1)], 1),
    ),
    "DctComponent": (
        layer("DctComponent", ("<Dim>", 6), ("<DctDim>", 3), ("<Reorder>", False), ("<DctKeepDim>", 2)),
        lambda x: dct_of(x, 3, 2).reshape(len(x), -1),
    ),
    "DctComponent, interlaced": (
        layer("DctComponent", ("<Dim>", 6), ("<DctDim>", 3), ("<Reorder>", True), ("<DctKeepDim>", 3)),
        lambda x: (
            dct_of(x.reshape(len(x), 3, 2).transpose(0, 2, 1).reshape(len(x), 6), 3, 3)
            .transpose(0, 2, 1)
            .reshape(len(x), 6)
        ),
    ),
    "Convolutional1dComponent": (_convolution(False), lambda x: patches_of(x, False)),
    "Convolutional1dComponent, appended": (_convolution(True), lambda x: patches_of(x, True)),
}


def computed(parts: Sequence[Part], x: np.ndarray, binary: bool = True, *, log_softmax: bool = False) -> np.ndarray:
    nnet = convert(reader(written(parts, binary)), log_softmax=log_softmax)
    assert isinstance(nnet, Nnet)
    return nnet.compute(torch.from_numpy(x.astype(np.float32))).numpy()


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_a_component(name: str, binary: bool) -> None:
    parts, function = CASES[name]
    width = {"MaxpoolingComponent": 12, "Convolutional1dComponent": 10}.get(name.partition(",")[0], 6)
    x = normal(5, width)
    np.testing.assert_allclose(computed(of_nnet2(parts), x, binary), function(x), rtol=1e-5, atol=1e-6)


def test_layers_have_a_million_columns_at_most() -> None:
    nnet = convert(reader(written(of_nnet2(layer("ScaleComponent", ("<Dim>", 1_000_000), ("<Scale>", 1.0))))))
    assert isinstance(nnet, Nnet)
    assert nnet.input_dims == {"input": 1_000_000}


def test_dropout_keeps_its_proportion() -> None:
    nnet = convert(reader(written(of_nnet2(CASES["DropoutComponent"][0]))))
    assert "type=GeneralDropoutComponent, dim=6, block-dim=6, dropout-proportion=0.5, time-period=1" in nnet.info()


@pytest.mark.parametrize("rate", [0.25, math.inf, -1.0])
def test_learning_rates_are_kept_if_they_are_any(rate: float) -> None:
    parts = layer("AffineComponent", ("<LearningRate>", rate), ("<LinearParams>", W), ("<BiasParams>", B))
    nnet = convert(reader(written(of_nnet2(parts))))
    assert isinstance(nnet, Nnet)
    assert nnet.components["affine1"].learning_rate == (0.25 if rate == 0.25 else 0.001)


def test_a_layer_behind_patches() -> None:
    x = normal(5, 10)
    got = computed(of_nnet2(_convolution(False), nonlinear("TanhComponent", 8)), x)
    np.testing.assert_allclose(got, np.tanh(patches_of(x, False)), rtol=1e-5, atol=1e-6)


def test_every_known_type_has_a_case() -> None:
    assert {name.partition(",")[0] for name in CASES} | {"SpliceComponent", "SpliceMaxComponent"} == set(LAYERS)


def at(x: np.ndarray, offset: int) -> np.ndarray:
    """The rows `offset` frames later, the first and last one repeated."""
    return x[np.clip(np.arange(len(x)) + offset, 0, len(x) - 1)]


def test_splicing() -> None:
    x = normal(7, 6)
    one = splice(6, [-1, 0, 2])
    np.testing.assert_allclose(computed(of_nnet2(one), x), np.concatenate([at(x, -1), x, at(x, 2)], 1))
    old = layer(
        "SpliceComponent", ("<InputDim>", 6), ("<LeftContext>", 1), ("<RightContext>", 0), ("<ConstComponentDim>", 0)
    )
    np.testing.assert_allclose(computed(of_nnet2(old), x), np.concatenate([at(x, -1), x], 1))
    largest = layer("SpliceMaxComponent", ("<Dim>", 6), ("<Context>", np.array([-1, 0, 1], np.int32)))
    np.testing.assert_allclose(computed(of_nnet2(largest), x), np.maximum(np.maximum(at(x, -1), x), at(x, 1)))


def test_splices_behind_splices() -> None:
    x = normal(9, 2)
    twice = computed(of_nnet2(splice(2, [-1, 0]), splice(4, [0, 2]), nonlinear("TanhComponent", 8)), x)
    parts = [at(x, offset) for offset in (-1, 0, 1, 2)]
    np.testing.assert_allclose(twice[2:-2], np.tanh(np.concatenate(parts, 1))[2:-2], rtol=1e-6)
    inner = of_nnet2(nonlinear("TanhComponent", 3), splice(3, [-1, 1], constant=1))
    y = np.tanh(x[:5, [0, 1, 0]])
    got = computed(inner, x[:5, [0, 1, 0]])
    np.testing.assert_allclose(
        got[1:-1], np.concatenate([at(y, -1)[:, :2], at(y, 1)[:, :2], y[:, 2:]], 1)[1:-1], rtol=1e-5
    )


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            layer("PnormComponent", *dims(6, 2), ("<P>", 1.0)),
            "component 1: a PnormComponent with p=1: nnet3 has p=2 alone",
        ),
        (layer("PowerComponent", *dims(6, 6), ("<Power>", 0.5)), "with power=0.5: nnet3 has squares alone"),
        (
            layer("SoftHingeComponent", ("<Dim>", 6)),
            "'<SoftHingeComponent>' is no component of nnet2 that nnet3 has too",
        ),
        (layer("PermuteComponent", ("<Reorder>", np.array([0, 0], np.int32))), "is no permutation"),
        (layer("SumGroupComponent", ("<Sizes>", np.array([2, 0], np.int32))), "a group of no columns"),
        (affine(W, B[:2]), "of 3 rows with 2 biases"),
        (
            layer("BlockAffineComponent", ("<NumBlocks>", 2), ("<LinearParams>", W[:, :3]), ("<BiasParams>", B)),
            "of 3 rows in 2 blocks",
        ),
        (
            layer("FixedAffineComponent", ("<LinearParams>", W), ("<BiasParams>", B[:2])),
            "a fixed transform of 3 rows with 2 biases",
        ),
        (layer("PnormComponent", ("<InputDim>", 6)), "a PnormComponent without <OutputDim>"),
        (layer("TanhComponent", ("<Scale>", 2.0)), "a TanhComponent without <LinearParams>"),
        (layer("TanhComponent", ("<Dims>", 2)), "expected a field of TanhComponent or </TanhComponent>, got '<Dims>'"),
        (layer("MaxoutComponent", *dims(6, 4)), "from 6 to 4 columns"),
        (layer("PnormComponent", *dims(6, 4)), "from 6 to 4 columns"),
        (layer("TanhComponent", ("<Dim>", 6), ("<Dim>", 6)), "expected a field of TanhComponent or </TanhComponent>"),
        (layer("MaxpoolingComponent", *dims(6, 6), ("<PoolSize>", 0), ("<PoolStride>", 3)), "of 6 columns, 0 x 3"),
        (layer("MaxpoolingComponent", *dims(6, 6), ("<PoolSize>", 2), ("<PoolStride>", 0)), "of 6 columns, 2 x 0"),
        (_convolution(False, step=4), "of patches of 3 of 5 columns, moved on by 4"),
        (
            layer("DropoutComponent", ("<Dim>", 6), ("<DropoutScale>", 0.0), ("<DropoutProportion>", 1.0)),
            "a DropoutComponent of a proportion of 1",
        ),
        (splice(6, []), "of no frames"),
        (
            layer("SpliceComponent", ("<InputDim>", 6), ("<LeftContext>", 0), ("<RightContext>", -5000)),
            "of 0 and -5000 frames",
        ),
        (splice(6, [0], constant=6), "of 6 columns, 6 of them constant"),
        (layer("ScaleComponent", ("<Dim>", 0), ("<Scale>", 1.0)), "component 1, ScaleComponent, takes 0 columns"),
        (layer("ScaleComponent", ("<Dim>", 1_000_001), ("<Scale>", 1.0)), "takes 1000001 columns"),
        (
            layer("DctComponent", ("<Dim>", 90_000), ("<DctDim>", 90_000), ("<Reorder>", False)),
            "a DctComponent of 90000 columns, 90000 of 90000",
        ),
    ],
)
def test_what_nnet3_has_nothing_for(parts: list[Part], words: str) -> None:
    for binary in (True, False):
        with pytest.raises(ModelFormatError, match=words):
            convert(reader(written(of_nnet2(parts), binary)))


@pytest.mark.parametrize("constant", [-1, 6])
def test_a_splice_behind_layers_has_columns_of_both_kinds(constant: int) -> None:
    parts = of_nnet2(nonlinear("TanhComponent", 6), splice(6, [0, 1], constant=constant))
    with pytest.raises(ModelFormatError, match=f"component 2: a SpliceComponent of 6 columns, {constant} of them"):
        convert(reader(written(parts)))
