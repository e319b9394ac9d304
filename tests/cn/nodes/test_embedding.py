"""Products with sparse inputs in networks. Embeddings: `test_sequence`, `test_random_stages`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import GradientError, ShapeError
from tests.cn.small_networks import WORDS, bag_classifier, few_elements


def test_an_input_that_others_need_too_becomes_dense() -> None:
    """An autoencoder, whose criterion has the input itself."""
    x = cn.input("x", WORDS, sparse=True)
    h = cn.tanh(cn.parameter("W", (3, WORDS)) @ x)
    net = cn.Network(cn.square_error(cn.parameter("V", (WORDS, 3)) @ h, x))
    assert cn.check_gradients(net, {"x": torch.as_tensor(few_elements(4)).to_sparse()}).worst < 1e-5


def test_training_with_and_without_sparse_gradients() -> None:
    batch = {"x": torch.as_tensor(few_elements(5)).to_sparse(), "label": [0, 2, 1, 1, 2]}
    net, twin = bag_classifier(True), bag_classifier(False)
    for each in (net, twin):
        cn.train(each, [batch], learning_rate=0.3, epochs=3, momentum=0.5, max_param_change=0.1, l2=1e-3, clip_norm=0.5)
    np.testing.assert_allclose(net.find("W").value, twin.find("W").value, atol=1e-13)
    dense = bag_classifier(True, sparse=False)
    history = cn.train(dense, [batch], torch.optim.Adam(dense.tensors().values(), lr=0.05), epochs=40)
    assert history[-1] < 0.3 * history[0]


def test_copies_files_and_counterparts(tmp_path) -> None:
    net, batch = bag_classifier(True), {"x": torch.as_tensor(few_elements(5)).to_sparse()}
    expected = net.evaluate("h", batch)
    cn.save(net, tmp_path / "net.cn")
    for other in (net.copy(), cn.load(tmp_path / "net.cn"), cn.from_nnet(net.to_nnet())):
        np.testing.assert_allclose(other.evaluate("h", batch), expected, atol=1e-15)
    pytest.importorskip("onnxruntime")
    net.export_onnx(tmp_path / "net.onnx", "h")


def test_wrong_ones() -> None:
    net = bag_classifier(True)
    with pytest.raises(ShapeError, match="input 'x': expected 12 rows, got 5"):
        net.evaluate("h", {"x": torch.as_tensor(few_elements(12, 5)).to_sparse()})
    with pytest.raises(GradientError, match="no gradient with respect to what is sparse"):
        net.gradients({"x": few_elements(2), "label": [0, 1]}, wrt=["x"])
    with pytest.raises(ShapeError, match=r"sparse_times needs .* as many columns as the input has rows"):
        cn.parameter("W", (2, 3)) @ cn.input("x", 4, sparse=True)
    with pytest.raises(ShapeError, match="what is sparse has samples"):
        cn.input("x", (3, 4), sparse=True)
    with pytest.raises(ShapeError, match="complex"):
        net.evaluate("h", {"x": torch.zeros(WORDS, 2, dtype=torch.complex64).to_sparse()})
