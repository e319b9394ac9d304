"""Whole models: transition models and priors, ivectors, networks of nnet1, damaged files."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
import torch

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ModelFormatError, Nnet3Error
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.nnet import AcousticModel, Nnet, load
from nnet3.model.nnet.older.convert import convert
from tests.nnet.model_texts import TRANSITIONS_TEXT
from tests.nnet.older.older_files import Part, affine, nonlinear, of_nnet2, reader, splice, written

RNG = np.random.default_rng(1)
PDFS = TransitionModel.read(Reader(TRANSITIONS_TEXT.encode())).num_pdfs


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def nnet2(outputs: int) -> list[Part]:
    return of_nnet2(
        splice(5, [-1, 0, 1], constant=2),
        affine(normal(4, 11), normal(4)),
        nonlinear("TanhComponent", 4),
        affine(normal(outputs, 4), normal(outputs)),
        nonlinear("SoftmaxComponent", outputs),
    )


def mdl(parts: list[Part], priors: np.ndarray, binary: bool) -> bytes:
    writer = Writer.of_file(binary)
    TransitionModel.read(Reader(TRANSITIONS_TEXT.encode())).write_to(writer)
    return writer.getvalue() + written([*parts, ("", priors)], binary).removeprefix(b"\0B")


@pytest.mark.parametrize("binary", [True, False])
def test_an_acoustic_model_with_an_ivector(tmp_path: Path, binary: bool) -> None:
    parts, priors = nnet2(PDFS), np.full(PDFS, 1 / PDFS, np.float32)
    (tmp_path / "final.mdl").write_bytes(mdl(parts, priors, binary))
    with pytest.raises(ModelFormatError, match="a model of nnet2, of which `nnet3 convert` makes one of nnet3"):
        load(tmp_path / "final.mdl")
    model = convert(Reader.open(str(tmp_path / "final.mdl")))
    assert isinstance(model, AcousticModel)
    assert model.nnet.input_dims == {"input": 3, "ivector": 2}
    assert [*model.nnet.components] == ["affine1", "nonlin1", "affine2", "log-softmax1"]
    assert model.nnet.components["affine1"].learning_rate == pytest.approx(0.02)
    np.testing.assert_allclose(model.priors.numpy(), priors)
    model.save(tmp_path / "new.mdl")
    features, ivector = normal(6, 3), normal(2)
    got = load(tmp_path / "new.mdl").compute(features, ivector, use_priors=True)
    values = dict(parts)
    weights = [value for token, value in parts if token == "<LinearParams>"]
    biases = [value for token, value in parts if token == "<BiasParams>"]
    rows = [features[np.clip(np.arange(6) + offset, 0, 5)] for offset in (-1, 0, 1)]
    hidden = np.tanh(np.concatenate([*rows, np.tile(ivector, (6, 1))], 1) @ weights[0].T + biases[0])
    scores = torch.log_softmax(torch.from_numpy(hidden @ weights[1].T + biases[1]), 1) - torch.from_numpy(
        np.log(priors)
    )
    torch.testing.assert_close(got, scores, rtol=1e-5, atol=1e-5)
    assert values["<NumComponents>"] == 5


def test_a_softmax_may_stay() -> None:
    data = written(nnet2(3))
    assert "softmax1 type=SoftmaxComponent" in convert(reader(data), log_softmax=False).info()
    assert "type=LogSoftmaxComponent" in convert(reader(data)).info()


def of_nnet1(*, wrapped: bool = True, ends: bool = True) -> tuple[list[Part], list[np.ndarray]]:
    """A network of all components, and its matrices."""
    w, b, m = normal(6, 4), normal(6), normal(4, 6)
    end: list[Part] = [("<!EndOfComponent>", None)] if ends else []
    numbers: list[tuple[str, int, int, list[Part]]] = [
        ("<Splice>", 4, 2, [("", np.array([-1, 1], np.int32))]),
        ("<AddShift>", 4, 4, [("<LearnRateCoef>", 0.0), ("", np.arange(4, dtype=np.float32))]),
        ("<Rescale>", 4, 4, [("<LearnRateCoef>", 0.0), ("", np.float32([1, 2, 0.5, 1]))]),
        (
            "<AffineTransform>",
            6,
            4,
            [("<LearnRateCoef>", 1.0), ("<BiasLearnRateCoef>", 0.1), ("<MaxNorm>", 0.0), ("", w), ("", b)],
        ),
        ("<Sigmoid>", 6, 6, []),
        ("<Dropout>", 6, 6, [("<DropoutRate>", 0.4)]),
        ("<LinearTransform>", 4, 6, [("<LearnRateCoef>", 1.0), ("", m)]),
        ("<Tanh>", 4, 4, []),
        (
            "<ParametricRelu>",
            4,
            4,
            [
                ("<AlphaLearnRateCoef>", 0.0),
                ("<BetaLearnRateCoef>", 0.0),
                ("", np.float32([1, 2, 1, 1])),
                ("", np.float32([0.5, 0, 0.1, -1])),
            ],
        ),
        ("<LengthNormComponent>", 4, 4, []),
        ("<Copy>", 3, 4, [("", np.array([4, 1, 1], np.int32))]),
        ("<Softmax>", 3, 3, []),
    ]
    parts: list[Part] = [("<Nnet>", None)] if wrapped else []
    for name, out, into, values in numbers:
        parts += [(name, out), ("", into), *values, *end]
    return parts + ([("</Nnet>", None)] if wrapped else []), [w, b, m]


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(("wrapped", "ends"), [(True, True), (True, False), (False, False)])
def test_a_network_of_nnet1(binary: bool, wrapped: bool, ends: bool) -> None:
    parts, (w, b, m) = of_nnet1(wrapped=wrapped, ends=ends)
    nnet = convert(reader(written(parts, binary)))
    assert isinstance(nnet, Nnet)
    x = normal(5, 2)
    h = np.concatenate([x[np.clip(np.arange(5) - 1, 0, 4)], x[np.clip(np.arange(5) + 1, 0, 4)]], 1)
    h = (h + np.arange(4)) * [1, 2, 0.5, 1]
    h = np.tanh((1 / (1 + np.exp(-(h @ w.T + b)))) @ m.T)
    h = np.where(h > 0, h * [1, 2, 1, 1], h * [0.5, 0, 0.1, -1])
    h = (h / np.linalg.norm(h, axis=1, keepdims=True))[:, [3, 0, 0]]
    want = torch.log_softmax(torch.from_numpy(h.astype(np.float32)), 1)
    torch.testing.assert_close(nnet.compute(x), want, rtol=1e-5, atol=1e-5)


def test_a_feature_transform_comes_before() -> None:
    transform: list[Part] = [("<Splice>", 4), ("", 2), ("", np.array([0, 1], np.int32))]
    main: list[Part] = [("<Nnet>", None), ("<Tanh>", 4), ("", 4), ("</Nnet>", None)]
    nnet = convert(reader(written(main)), reader(written(transform)))
    x = normal(4, 2)
    want = np.tanh(np.concatenate([x, x[[1, 2, 3, 3]]], 1))
    np.testing.assert_allclose(nnet.compute(x).numpy(), want, rtol=1e-6)
    with pytest.raises(ModelFormatError, match="component 2, TanhComponent, takes 3 columns, but gets 4"):
        convert(reader(written([("<Tanh>", 3), ("", 3)])), reader(written(transform)))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            [("<Nnet>", None), ("<LstmProjected>", 3), ("", 3)],
            "'<LstmProjected>' is no component of nnet1 that nnet3 has too",
        ),
        ([("<Nnet>", None), ("</Nnet>", None)], "a network of nnet1 without components"),
        ([("<Copy>", 2), ("", 2), ("", np.array([1, 3], np.int32))], "of columns that are not there"),
        ([("<AffineTransform>", 2), ("", 2), ("", normal(3, 2)), ("", normal(3))], "gives 3 columns, not 2"),
        ([("<Dropout>", 2), ("", 2), ("<DropoutRate>", 1.5)], "a proportion of 1.5"),
    ],
)
def test_networks_of_nnet1_that_are_refused(parts: list[Part], words: str) -> None:
    with pytest.raises(ModelFormatError, match=words):
        convert(reader(written(parts)))


@pytest.mark.parametrize("before", ["", TRANSITIONS_TEXT])
def test_a_model_that_nnet3_has_is_refused(before: str) -> None:
    with pytest.raises(ModelFormatError, match="a model of nnet3 already; `nnet3 copy`"):
        convert(reader(f"{before}<Nnet3> \n".encode()))


@pytest.mark.parametrize(
    ("text", "words"),
    [("ContextDependency 1 ", "got 'ContextDependency': this is a tree"), ("utt1 [ 1 ]", "got 'utt1'"), ("", "got ''")],
)
def test_what_is_no_model_is_refused(text: str, words: str) -> None:
    with pytest.raises(ModelFormatError, match=f"expected a model of nnet2 or a network of nnet1, {words}"):
        convert(reader(text.encode()))


@pytest.mark.parametrize("binary", [True, False])
def test_damaged_files_are_errors(binary: bool) -> None:
    whole = mdl(nnet2(PDFS), np.full(PDFS, 1 / PDFS, np.float32), binary)
    for data in (whole, written(of_nnet1()[0], binary)):
        for end in RNG.integers(2, len(data) - 3, 40).tolist():
            with pytest.raises(Nnet3Error):
                convert(reader(data[:end]))
            changed = bytearray(data)
            changed[end] ^= 1 << int(RNG.integers(8))
            with contextlib.suppress(Nnet3Error):
                convert(reader(bytes(changed)))
    with pytest.raises(ModelFormatError, match="priors must be one number for each of"):
        convert(reader(mdl(nnet2(PDFS), np.ones(PDFS + 1, np.float32), binary)))
