"""Networks in stages as ONNX files: every node of whole sequences, axes of other lengths, attention inside a loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import ExportError
from tests.cn.onnx.exported_network import ExportedNetwork
from tests.cn.staged_networks import classifier, decoder
from tests.seeds import RANDOM


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


@pytest.mark.parametrize(("batch", "frames"), [(3, 5), (1, 1)])
def test_a_classifier_of_sentences(tmp_path, batch, frames):
    net = classifier(torch.float32)
    words = RANDOM.integers(-1, 50, (batch, frames, 1))
    exported = check(net, tmp_path, {"words": words})
    shapes = {each.name: each.shape for each in (*exported.session.get_inputs(), *exported.session.get_outputs())}
    assert shapes == {"words": ["batch", "frames", 1], "scores": ["batch", 3]}


@pytest.mark.parametrize("additive", [False, True])
def test_a_decoder_that_attends_in_its_loop(tmp_path, additive):
    """Of other lengths than those with which the export has compared; answers are longer or shorter than words."""
    net = decoder(torch.float32, additive=additive)
    for words, answers in ((2, 30), (9, 1), (40, 7)):
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
