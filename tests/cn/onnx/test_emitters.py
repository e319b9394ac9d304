"""Each type of node in onnxruntime is what it is in `evaluate`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import nnet3.cn.onnx.emitters  # noqa: F401  (it registers them)
from nnet3 import cn
from nnet3.cn.operation_types import OPERATIONS
from nnet3.errors import ExportError
from nnet3.export.emitter_table import EMITTERS
from tests.cn.onnx.exported_network import ExportedNetwork
from tests.cn.staged_networks import classifier, decoder
from tests.effort import at_night
from tests.seeds import RANDOM

NODE_EMITTERS = EMITTERS.keys() & OPERATIONS
X, Y, P = cn.input("x", 6), cn.input("y", 6), cn.input("p", (6, 4))
COLUMN, SQUARE = cn.parameter("column", (6, 1), RANDOM.normal(size=(6, 1))), cn.parameter("square", (6, 6))
POSITIVE, LABELS = cn.exp(X, name="positive"), cn.softmax(Y, name="labels")
WORD = cn.input("word", classes=6)
IMAGE = {"image": (2, 3, 1), "window": (2, 2)}
ONE_OPERAND = {
    name: getattr(cn, name)
    for name in (
        *("negate", "sigmoid", "tanh", "relu", "exp", "copy", "softmax", "log_softmax"),
        *("sum_elements", "l1_norm", "l2_norm", "squared_norm"),
    )
}
NODES = {
    **{name: make(X) for name, make in ONE_OPERAND.items()},
    **{f"{name} without samples": make(P) for name, make in ONE_OPERAND.items()},
    "log": cn.log(POSITIVE),
    "dropout": cn.dropout(0.5, X),
    "plus": X + COLUMN,
    "plus of a number": X + 0.5,
    "minus": cn.row_slice(X, 2, 1) - Y,
    "element_times": X * Y,
    "plus of repeated columns": P + cn.parameter("pair", (6, 2)),
    "minus of repeated columns": cn.parameter("two", (1, 2), [[1.0, -2.0]]) - P,
    "scale": cn.scale(cn.l1_norm(SQUARE), X),
    "diag_times": cn.diag_times(COLUMN, X),
    "diag_times without samples": cn.diag_times(COLUMN, P),
    "times": SQUARE @ X,
    "times without samples": SQUARE @ P,
    "times of what is computed": cn.tanh(SQUARE @ SQUARE) @ X,
    "khatri_rao_product": cn.khatri_rao_product(X, cn.row_slice(Y, 1, 2)),
    "khatri_rao_product without samples": cn.khatri_rao_product(P, P),
    "cos": cn.cos(X, Y),
    "cos of zeros": cn.cos(cn.relu(X - 9.0), Y),
    "cos without samples": cn.cos(P, cn.tanh(P)),
    "classification_error": cn.classification_error(X, Y),
    "square_error": cn.square_error(X, Y),
    "cross_entropy": cn.cross_entropy(LABELS, cn.softmax(X)),
    "cross_entropy of zeros": cn.cross_entropy(cn.relu(X), cn.relu(cn.exp(X) - 1.0)),
    "cross_entropy_with_softmax": cn.cross_entropy_with_softmax(LABELS, X),
    "class_cross_entropy": cn.cross_entropy_with_softmax(WORD, X),
    "class_cross_entropy with smoothing": cn.cross_entropy_with_softmax(WORD, X, smoothing=0.2),
    "class_cross_entropy with weights": cn.cross_entropy_with_softmax(WORD, X, weights=cn.exp(COLUMN), smoothing=0.1),
    "classification_error of classes": cn.classification_error(WORD, X),
    **{name: getattr(cn, name)(POSITIVE, cn.exp(Y)) for name in ("divide", "minimum", "maximum")},
    **{name: getattr(cn, name)(X, COLUMN) for name in ("less", "less_equal", "greater", "greater_equal", "equal")},
    "divide with repeated columns": P / cn.exp(cn.parameter("pair2", (6, 2))),
    "abs": cn.abs(X),
    "sqrt": cn.sqrt(POSITIVE),
    "power": X**3,
    "clip": cn.clip(X, -0.5, 0.25),
    "where": cn.where(X > Y, X, 2.0 * Y),
    "row_step": X[::-2],
    "transpose": cn.transpose(P),
    "transpose of two columns": cn.transpose(cn.parameter("narrow", (6, 2))),
    "layer_norm": cn.layer_norm(X),
    **{f"reduce_rows {how}": getattr(cn, f"{how}_rows")(X) for how in ("sum", "mean", "max", "min", "log_sum_exp")},
    "per_dim_mean_var_norm": cn.per_dim_mean_var_norm(X, COLUMN, cn.exp(COLUMN)),
    "row_slice": cn.row_slice(X, 1, 3),
    "row_slice without samples": cn.row_slice(P, 1, 3),
    "row_stack": cn.row_stack(X, Y),
    "row_stack without samples": cn.row_stack(P, cn.tanh(P)),
    "row_stack of both": cn.row_stack(X, COLUMN, Y),
    "convolution": cn.convolution(cn.parameter("kernels", (3, 4)), X, cn.parameter("bias", (3, 1), 0.5), **IMAGE),
    "convolution with margins": cn.convolution(SQUARE, X, image=(1, 2, 3), window=(1, 2), pad=True),
    "convolution without samples": cn.convolution(cn.parameter("kernel", (2, 2)), P, image=(2, 3), window=(1, 2)),
    "convolution with dilation": cn.convolution(
        cn.parameter("kd", (2, 2)), X, image=(1, 6, 1), window=(1, 2), dilation=(1, 3), pad=True
    ),
    "convolution with strides": cn.convolution(cn.parameter("k", (2, 3)), X, image=(3, 2), window=(3, 1), stride=2),
    "transposed_convolution": cn.transposed_convolution(
        cn.parameter("kt", (2, 12)), X, cn.parameter("bt", (3, 1), 0.5), image=(1, 3, 2), window=2, stride=2
    ),
    "transposed_convolution with all options": cn.transposed_convolution(
        cn.parameter("ka", (3, 12)),
        X,
        image=(2, 1, 3),
        window=(3, 2),
        stride=(3, 2),
        dilation=(1, 2),
        pad=True,
        extra=(2, 1),
    ),
    "max_pooling": cn.max_pooling(X, image=(2, 3), window=2, pad=True),
    "average_pooling": cn.average_pooling(X, image=(2, 3), window=(2, 3), pad=True),
    "average_pooling with strides": cn.average_pooling(X, image=(2, 3), window=(1, 2), stride=(1, 2)),
}


@pytest.mark.parametrize("frames", [0, *at_night(3)])
def test_all_types_are_what_evaluate_gives(frames: int, tmp_path: Path) -> None:
    exported = ExportedNetwork(cn.Network(outputs=NODES), tmp_path, frames=frames)
    for length in (3, 20)[: 1 if frames else 2]:
        inputs = {name: cn.sequences(RANDOM.normal(size=(2, 6, length))) for name in ("x", "y")}
        inputs["word"] = cn.sequences(RANDOM.integers(-1, 6, size=(2, length)))
        exported.check({**inputs, "p": RANDOM.normal(size=(6, 4))})


def test_every_type_has_an_emitter() -> None:
    """But those that are given, stored or gathered, and CTC."""
    ours = {name for name, made in OPERATIONS.items() if made.__module__.startswith("nnet3.")}
    others = {"input", "parameter", "mean", "inv_std_dev", "delay", "ctc"}
    assert NODE_EMITTERS & ours == ours - others
    of_wholes = {name for name in ours if OPERATIONS[name].is_whole}
    assert {name.split()[0] for name in NODES} == (NODE_EMITTERS & ours) - of_wholes - {"component"}


def check(net: cn.Network, folder, inputs: dict[str, np.ndarray]) -> ExportedNetwork:
    """Inputs and outputs as the file has them: (batch, frames, rows), (batch, rows) on the axis of sequences."""
    exported = ExportedNetwork(net, folder)
    wanted = {each.name for each in exported.session.get_inputs()}
    names = [each.name for each in exported.session.get_outputs()]
    given = {name: array.astype(np.float32) for name, array in inputs.items() if name in wanted}
    found = dict(zip(names, exported.session.run(names, given), strict=True))
    ours = {name: cn.sequences(list(a.transpose(0, 2, 1))) if a.ndim == 3 else a.T for name, a in given.items()}
    for name, value in found.items():
        expected = net.evaluate(name, ours)
        expected = np.stack([part.T for part in expected]) if isinstance(expected, list) else np.atleast_2d(expected.T)
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4, err_msg=name)
    return exported


@pytest.mark.parametrize(("batch", "frames"), [(3, 5), *at_night((1, 1))])
def test_a_classifier_of_sentences(tmp_path, batch, frames):
    net = classifier(torch.float32)
    words = RANDOM.integers(-1, 50, (batch, frames, 1))
    exported = check(net, tmp_path, {"words": words})
    shapes = {each.name: each.shape for each in (*exported.session.get_inputs(), *exported.session.get_outputs())}
    assert shapes == {"words": ["batch", "frames", 1], "scores": ["batch", 3]}


@pytest.mark.parametrize("additive", [False, *at_night(True)])
def test_a_decoder_that_attends_in_its_loop(tmp_path, additive):
    """Of other lengths than those with which the export has compared; answers are longer or shorter than words."""
    net = decoder(torch.float32, additive=additive)
    for words, answers in ((2, 12), *at_night((9, 1), (40, 30)), (17, 5)):
        given = {"word": RANDOM.normal(size=(2, words, 3)), "before": RANDOM.normal(size=(2, answers, 2))}
        exported = check(net, tmp_path, given)
    assert {each.name: each.shape[1] for each in exported.session.get_inputs()} == {
        "word": "frames",
        "before": "answer_frames",
    }


def nodes() -> dict[str, cn.Node]:
    x, like = cn.input("x", 3), cn.input("like", 1, axis="other")
    index, label = cn.input("index", classes=9, axis="other"), cn.input("label", classes=4, axis="sequence")
    h = cn.tanh(cn.parameter("W", (4, 3)) @ x)
    scores = cn.broadcast_as(cn.sequence.last(h), like) + cn.sequence.gather(h, index)
    return {
        "first": cn.sequence.first(h),
        "sum": cn.sequence.sum(h),
        "mean": cn.sequence.mean(h) * cn.sequence.max(h),
        "softmax": cn.sequence.sum(cn.sequence.softmax(h) * h),
        "reverse": cn.delay(cn.sequence.reverse(h), 1) + h,
        "scores": scores,
        "J": cn.cross_entropy_with_softmax(label, cn.sequence.mean(h)) + cn.squared_norm(scores),
        "lstm": cn.macros.fast_lstm(h, 3, name="forward") - cn.macros.fast_lstm(h, 3, name="backward", reverse=True),
        "attention": cn.attention(scores, h, h, scale=0.7),
        "additive attention": cn.additive_attention(scores, h, h, cn.parameter("v", (4, 1))),
    }


@pytest.mark.parametrize("name", list(nodes()))
def test_every_node_of_whole_sequences(tmp_path, name):
    net = cn.Network(outputs={"y": nodes()[name]})
    given = {
        "x": RANDOM.normal(size=(2, 5, 3)),
        "like": np.zeros((2, 4, 1)),
        "index": RANDOM.integers(-1, 7, (2, 4, 1)),
        "label": RANDOM.integers(0, 4, (2, 1)),
    }
    check(net, tmp_path, given)


def test_what_has_no_form_in_onnx(tmp_path):
    net = cn.Network(outputs={"J": cn.ctc(cn.input("x", 3), cn.input("labels", classes=3, axis="label"))})
    with pytest.raises(ExportError, match="nobody has said what ctc is in ONNX"):
        net.export_onnx(tmp_path / "net.onnx")
    with pytest.raises(ExportError, match="leave frames out"):
        decoder().export_onnx(tmp_path / "net.onnx", frames=5)
    assert not list(tmp_path.iterdir())
