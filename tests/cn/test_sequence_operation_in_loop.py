"""Attention inside a decoder's loop: against PyTorch frame by frame, and against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3 import cn
from nnet3.errors import NetworkError, ShapeError
from tests.cn.staged_networks import batch_of, decoder
from tests.seeds import RANDOM


def by_hand(parameters: dict[str, Tensor], batch: dict[str, Any]) -> tuple[Tensor, list[Tensor]]:
    """The criterion, and the states (4, frames) of each sequence."""
    total, states = torch.zeros(()), []
    for word, before, y in zip(*([torch.tensor(each) for each in value] for value in batch.values()), strict=True):
        keys, values = torch.tanh(parameters["K"] @ word), torch.tanh(parameters["V"] @ word)
        h, found = torch.zeros(4, 1, dtype=torch.float64), []
        for t in range(before.shape[1]):
            scores = torch.tanh(keys + h).T @ parameters["w"] if "w" in parameters else keys.T @ h / 2
            seen = values @ torch.softmax(scores, 0)
            h = parameters["A"] @ before[:, t : t + 1] + parameters["R"] @ h + parameters["C"] @ seen
            h = torch.tanh(h)
            found.append(h)
        states.append(torch.cat(found, 1))
        total = total + 0.5 * (states[-1] - y).square().sum()
    return total, states


LENGTHS = [((3,), (4,)), ((2, 2), (6, 6)), ((3, 1, 4), (2, 5, 3)), ((3, 1, 4, 2, 2), (20, 25, 23, 11, 5))]


@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize(("words", "answers"), LENGTHS)
def test_values_and_gradients_are_those_of_pytorch(words, answers, additive):
    net, batch = decoder(additive=additive), batch_of(words, answers)
    parameters = {name: torch.tensor(value, requires_grad=True) for name, value in net.parameters().items()}
    total, states = by_hand(parameters, batch)
    total.backward()
    value, gradients = net.criterion_and_gradients(batch)
    assert value == pytest.approx(total.item(), rel=1e-12)
    for name, parameter in parameters.items():
        np.testing.assert_allclose(gradients[name], parameter.grad, rtol=1e-9, atol=1e-12)
    for ours, theirs in zip(net.evaluate("h", batch), states, strict=True):
        np.testing.assert_allclose(ours, theirs.detach(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("additive", [False, True])
def test_gradients_are_those_of_differences(additive):
    net = decoder(additive=additive)
    assert cn.check_gradients(net, batch_of((3, 1, 4), (2, 5, 3))).worst < 1e-4


def test_weights_of_attention_that_are_computed_or_used_elsewhere_too():
    net, batch = decoder(additive=True), batch_of((3, 1), (2, 4))
    w = net.find("w")
    half = net.replace({"w": cn.scale(0.5, cn.tanh(cn.parameter("u", (4, 1))))})
    shared = cn.Network({next(iter(net.criteria)): 1.0, cn.squared_norm(w): 0.3}, net.outputs, dtype=torch.float64)
    for each in (half, shared):
        assert cn.check_gradients(each, batch).worst < 1e-4
    net.freeze("w")
    assert "w" not in net.gradients(batch)
    assert net.gradients(batch, wrt=["w"])["w"].shape == (4, 1)


def test_gradients_of_contexts_and_of_what_is_found():
    """With respect to nodes of every stage, each as large as its value; frozen keys get none and change no other."""
    net, batch = decoder(), batch_of((3, 1), (2, 4))
    found = net.gradients(batch, wrt=["keys", "values", "found", "word"])
    assert [each.shape for each in found["keys"]] == [(4, 3), (4, 1)]
    assert [each.shape for each in found["found"]] == [(5, 2), (5, 4)]
    triples = zip(net.evaluate("values", batch), found["values"], batch["word"], strict=True)
    expected = sum(((1 - value**2) * gradient) @ word.T for value, gradient, word in triples)
    np.testing.assert_allclose(found["V"], expected, rtol=1e-9)
    net.freeze("K", "V")
    rest = net.gradients(batch)
    assert sorted(rest) == ["A", "C", "R"]
    for name, gradient in rest.items():
        np.testing.assert_allclose(gradient, found[name], rtol=1e-12)


def test_one_sequence_after_the_other_is_all_at_once():
    net, batch = decoder(), batch_of((3, 1, 4, 4), (2, 5, 5, 1))
    whole = net.evaluate("h", batch)
    for number, expected in enumerate(whole):
        alone = {name: cn.sequences([value[number]]) for name, value in batch.items()}
        np.testing.assert_allclose(net.evaluate("h", alone)[0], expected, rtol=1e-12, atol=1e-14)
    turned = {name: cn.sequences(list(value)[::-1]) for name, value in batch.items()}
    for ours, expected in zip(net.evaluate("h", turned), whole[::-1], strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-14)


def test_a_decoder_that_goes_back_in_time():
    net, batch = decoder(lag=-1), batch_of((3, 2), (4, 4))
    forth = decoder()
    forth.set_parameters(net.parameters())
    turned = {n: cn.sequences([each[:, ::-1] for each in batch[n]]) if n != "word" else batch[n] for n in batch}
    for ours, theirs in zip(net.evaluate("h", batch), forth.evaluate("h", turned), strict=True):
        np.testing.assert_allclose(ours, theirs[:, ::-1], rtol=1e-12, atol=1e-14)


def test_keys_on_the_axis_of_the_loop_itself():
    """Self-attention whose query is the state of a recurrence."""
    x = cn.input("x", 3)
    d = cn.delay(None, dim=3)
    h = d.connect(cn.tanh(x + cn.attention(d, x, cn.tanh(cn.parameter("W", (3, 3)) @ x)), name="h"))
    net = cn.Network(cn.squared_norm(h), dtype=torch.float64)
    assert cn.check_gradients(net, {"x": cn.sequences([RANDOM.normal(size=(3, n)) for n in (4, 2)])}).worst < 1e-5


@pytest.mark.parametrize("additive", [False, True])
def test_saved_trained_and_loaded(tmp_path, additive):
    net, batch = decoder(torch.float32, additive=additive), batch_of((3, 1, 4), (2, 5, 3))
    history = cn.train(net, [batch], learning_rate=0.1, epochs=20)
    assert history[-1] < history[0]
    cn.save(net, tmp_path / "net.cn")
    again = cn.load(tmp_path / "net.cn")
    for one, other in zip(net.evaluate("h", batch), again.evaluate("h", batch), strict=True):
        np.testing.assert_array_equal(one, other)


def test_more_sequences_than_half_precision_tells_apart():
    net = decoder(torch.float16)
    batch = {name: cn.sequences([value[0]] * 2049) for name, value in batch_of((1,), (1,)).items()}
    with pytest.raises(ShapeError, match=r"attention: torch.float16 does not tell 2049 sequences apart"):
        net.evaluate("h", batch)


def test_contexts_lie_outside_of_the_loop():
    d = cn.delay(None, dim=2)
    h = cn.tanh(cn.input("x", 2) + d, name="h")
    d.connect(cn.attention(h, h, h, name="all"))
    with pytest.raises(
        NetworkError, match=r"'all' \(attention\) needs all frames of 'h', which are not known in a loop"
    ):
        cn.Network(outputs=[h])
