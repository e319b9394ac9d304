"""Natural gradient of products: as linear components have it, with the operands of loops and stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.cn.natural_gradient import NaturalGradients
from nnet3.model.components.natural_gradient import add_natural_gradient
from nnet3.model.components.updatable import preconditioners
from nnet3.model.nnet import Nnet
from nnet3.train import MatrixTarget, Minibatch, NetworkInput, Trainer, TrainerOptions
from nnet3.training.train.minibatch import grid
from tests.cn.reference import columns
from tests.cn.small_networks import recurrence
from tests.seeds import RANDOM

CONFIG = """
input-node name=input dim=6
component name=linear type=LinearComponent input-dim=6 output-dim=4
component-node name=linear component=linear input=input
component name=tanh type=TanhComponent dim=4
component-node name=tanh component=tanh input=linear
component name=last type=LinearComponent input-dim=4 output-dim=3
component-node name=last component=last input=tanh
output-node name=output input=last objective=quadratic
"""


def test_products_learn_as_linear_components_do() -> None:
    """Those of networks of components, which agree with Kaldi. Their gradients are sums over 50 rows, not means; the
    estimates have floors, so the sums are made the same.
    """
    nnet = Nnet.from_config(CONFIG, seed=2).to(dtype=torch.float64)
    x, y = cn.input("x", 6), cn.input("y", 3)
    W, V = (nnet.components[name].parameters()["params"].numpy() for name in ("linear", "last"))
    h = cn.tanh(cn.parameter("W", (4, 6), W) @ x)
    net = cn.Network({cn.square_error(cn.parameter("V", (3, 4), V) @ h, y): 50.0}, dtype=torch.float64)
    trainer = Trainer(nnet, TrainerOptions(max_param_change=0.0))
    batches = [{"x": RANDOM.normal(size=(6, 50)), "y": RANDOM.normal(size=(3, 50))} for _ in range(6)]
    rows = grid(50, [0])
    for batch in batches:
        x_rows, y_rows = (torch.tensor(batch[name].T) for name in ("x", "y"))
        trainer.train_minibatch(
            Minibatch([NetworkInput("input", rows, x_rows)], [MatrixTarget("output", rows, y_rows)]), 0.004
        )
    cn.train(net, batches, learning_rate=0.004, natural_gradient=True)
    for name, mine in (("linear", "W"), ("last", "V")):
        wanted = nnet.components[name].parameters()["params"].numpy()
        np.testing.assert_allclose(net.parameters()[mine], wanted, rtol=1e-9)


def batch() -> dict[str, Any]:
    return {n: cn.sequences([RANDOM.normal(size=(r, t)) for t in (5, 3, 4)]) for n, r in (("x", 3), ("y", 2))}


def test_all_frames_of_a_loop_count_as_one_matrix() -> None:
    """By hand, of the operand and the gradient of each product."""
    net, minibatch = recurrence(), batch()
    names = {net.names[node.operands[0]]: node for node in net.nodes if node.type == "times"}
    pairs = {name: preconditioners(net.find(name).shape.num_cols, net.find(name).shape.rows) for name in "WRV"}
    by_hand = net.copy()
    natural = NaturalGradients(net, lambda name: name != "V")
    for _ in range(3):
        products = {
            name: by_hand.names[node] for name, node in ((n, by_hand.find(net.names[p])) for n, p in names.items())
        }
        slopes = by_hand.gradients(minibatch, wrt=list(products.values()))
        step = {"V": slopes["V"] / 12}
        for name in "WR":
            operand = by_hand.find(products[name]).operands[1]
            rows = torch.tensor(columns(by_hand.evaluate(operand, minibatch)).T)
            derivs = torch.tensor(columns(slopes[products[name]]).T / 12)
            total = torch.zeros(by_hand.find(name).value.shape, dtype=torch.float64)
            add_natural_gradient(total, None, 1.0, rows, pairs[name][0], derivs, pairs[name][1])
            step[name] = total.numpy()
        by_hand.set_parameters({name: by_hand.parameters()[name] - 0.1 * step[name] for name in step})
        with natural.collecting():
            net.backward(minibatch, per_sample=True)
        for name in "WRV":
            np.testing.assert_allclose(net.tensors()[name].grad.numpy().T, step[name], rtol=1e-8, atol=1e-12)
        net.set_parameters({name: net.parameters()[name] - 0.1 * step[name] for name in step})
    assert {name: each.state().calls for name, each in natural.estimates().items()} == dict.fromkeys(
        (f"{net.names[names[name]]}.{side}" for name in "WR" for side in ("in", "out")), 3
    )


def test_gradients_are_plain_outside_of_training() -> None:
    net, minibatch = recurrence(), batch()
    expected = net.gradients(minibatch)
    cn.train(net, [minibatch], learning_rate=0.0, natural_gradient=True)
    for name, gradient in net.gradients(minibatch).items():
        np.testing.assert_allclose(gradient, expected[name], rtol=1e-12)
    assert cn.check_gradients(net, minibatch).worst < 1e-5


def test_components_with_natural_gradient_use_it() -> None:
    """The same step as that of a product and a bias apart would not be: a one is appended to the rows."""
    x, y = cn.input("x", 3), cn.input("y", 2)
    made = cn.component("NaturalGradientAffineComponent input-dim=3 output-dim=2", x, name="affine")
    net = cn.Network(cn.square_error(made, y), dtype=torch.float64)
    minibatch = {"x": RANDOM.normal(size=(3, 30)), "y": RANDOM.normal(size=(2, 30))}
    before = net.parameters()
    W, b = (torch.tensor(before[f"affine.{name}"]) for name in ("linear_params", "bias_params"))
    rows = torch.tensor(minibatch["x"].T)
    derivs = (rows @ W.T + b - torch.tensor(minibatch["y"].T)) / 30
    steps = torch.zeros_like(W), torch.zeros_like(b)
    into, out = preconditioners(3, 2)
    add_natural_gradient(*steps, 1.0, rows, into, derivs, out)
    plain = net.copy()
    cn.train(net, [minibatch], learning_rate=0.5, natural_gradient=True)
    for name, step in zip(("linear_params", "bias_params"), steps, strict=True):
        wanted = before[f"affine.{name}"] - 0.5 * step.numpy()
        np.testing.assert_allclose(net.parameters()[f"affine.{name}"], wanted, rtol=1e-8)
    cn.train(plain, [minibatch], learning_rate=0.5)
    assert not np.allclose(plain.parameters()["affine.linear_params"], net.parameters()["affine.linear_params"])


@pytest.mark.parametrize("make", [None, torch.optim.Adam])
def test_it_goes_with_stages_tied_matrices_and_optimizers(make: Any) -> None:
    words, label = cn.input("words", classes=9), cn.input("label", classes=2, axis="sequence")
    W = cn.parameter("W", (4, 4))
    e = cn.embedding(cn.parameter("E", (4, 9)), words, sparse=False)
    sentence = cn.tanh(W @ cn.sequence.mean(cn.tanh(W @ e)))
    net = cn.Network(cn.cross_entropy_with_softmax(label, cn.macros.affine(sentence, 2, name="out")))
    data = {"words": cn.sequences([RANDOM.integers(0, 9, size=t) for t in (4, 2, 5)]), "label": np.array([0, 1, 0])}
    optimizer = None if make is None else make(net.tensors().values(), lr=0.03)
    history = cn.train(net, [data], optimizer, learning_rate=0.3, epochs=30, natural_gradient=True)
    assert history[-1] < 0.3 * history[0]
