"""Nodes of whole sequences against PyTorch on each sequence alone: values, and gradients through a whole network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3 import cn
from nnet3.cn.node import Node
from nnet3.errors import GradientError, NetworkError, ShapeError
from tests.seeds import RANDOM

LENGTHS = ((3, 5, 1, 5), (4, 4), (6,), (2, 3))
X, WORDS = cn.input("x", 3), cn.input("words", classes=4, axis="word")
ANSWER = cn.input("answer", 2, axis="answer")


def batch_of(lengths: tuple[int, ...]) -> dict[str, cn.Sequences]:
    """Inputs on three axes; those of the words are shorter than half of the frames, as CTC needs them."""
    words = [RANDOM.integers(1, 4, size=max(1, (length - 1) // 2)) for length in lengths]
    return {
        "x": cn.sequences([RANDOM.normal(size=(3, length)) for length in lengths]),
        "words": cn.sequences(words),
        "answer": cn.sequences([RANDOM.normal(size=(2, (7 * length) % 5 + 1)) for length in lengths]),
    }


def compare(node: Node, formula, lengths: tuple[int, ...]) -> None:
    """`formula`: (D, frames) of tanh(W x), the words, (2, frames) of V answer -> the value of one sequence."""
    whole = batch_of(lengths)
    output = cn.sum_elements(cn.tanh(node), name="J") if not node.shape.is_scalar else node
    net = cn.Network(output, {"v": node}, dtype=torch.float64)
    batch = {net.names[node]: whole[net.names[node]] for node in net.inputs}
    W, V = (
        torch.tensor(stored.value).double().requires_grad_() for stored in (H.operands[0].operands[0], A.operands[0])
    )
    found = []
    for x, words, answer in zip(*whole.values(), strict=True):
        given = torch.tanh(W @ torch.tensor(x)), torch.tensor(words[0]), V @ torch.tensor(answer)
        found.append(formula(*given))
    total: Tensor = sum(each.sum() if node.shape.is_scalar else torch.tanh(each).sum() for each in found)
    total = total + 0 * (W.sum() + V.sum())
    total.backward()
    value, gradients = net.criterion_and_gradients(batch)
    assert value == pytest.approx(total.item(), rel=1e-9)
    for name, expected in (("W", W), ("V", V)):
        if name in gradients:
            np.testing.assert_allclose(gradients[name], expected.grad, rtol=1e-8, atol=1e-10)
    if node.shape.is_scalar:
        return
    values = net.evaluate("v", batch)
    values = values.T[:, :, None] if isinstance(values, np.ndarray) else values
    for ours, expected in zip(values, found, strict=True):
        np.testing.assert_allclose(ours.reshape(expected.shape), expected.detach(), rtol=1e-9, atol=1e-12)


H = cn.tanh(cn.parameter("W", (4, 3)) @ X, name="h")
A = cn.parameter("V", (4, 2)) @ ANSWER
EXTRA = 0.0 * cn.sum_elements(A)


def _attend(h: Tensor, words: Tensor, a: Tensor) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(a.T[None], h.T[None], (2 * h[:2]).T[None])[0].T


def _additive_scores(h: Tensor, a: Tensor) -> Tensor:
    """(frames of h, frames of a)."""
    weights = torch.tensor([1.0, 2.0, 0.5, -1.0], dtype=h.dtype)
    return torch.einsum("d,dkq->kq", weights, torch.tanh(h[:, :, None] + a[:, None, :]))


def _by_hand() -> Node:
    """Attention pooling of (1.31)'s softmax over frames, written with nodes."""
    weights = cn.sequence.softmax(cn.row_slice(H, 0, 1))
    return cn.sequence.sum(weights * H)


FORMULAS = {
    "first": (cn.sequence.first(H), lambda h, w, a: h[:, :1]),
    "last": (cn.sequence.last(H), lambda h, w, a: h[:, -1:]),
    "sum": (cn.sequence.sum(H), lambda h, w, a: h.sum(1, keepdim=True)),
    "mean": (cn.sequence.mean(H), lambda h, w, a: h.mean(1, keepdim=True)),
    "max": (cn.sequence.max(H), lambda h, w, a: h.max(1, keepdim=True).values),
    "softmax": (cn.sequence.softmax(H), lambda h, w, a: torch.softmax(h, 1)),
    "reverse": (cn.sequence.reverse(H), lambda h, w, a: h.flip(1)),
    "gather": (cn.sequence.gather(H, WORDS), lambda h, w, a: torch.cat([h, h.new_zeros(4, 4)], 1)[:, w]),
    "broadcast": (
        cn.broadcast_as(cn.sequence.last(H), ANSWER) + A,
        lambda h, w, a: h[:, -1:] + a,
    ),
    "broadcast as what is trained": (
        cn.broadcast_as(cn.sequence.last(H), H) * H,
        lambda h, w, a: h[:, -1:] * h,
    ),
    "attention": (cn.attention(A, H, 2.0 * cn.row_slice(H, 0, 2)), _attend),
    "additive attention": (
        cn.additive_attention(A, H, 2.0 * cn.row_slice(H, 0, 2), cn.constant([[1.0], [2.0], [0.5], [-1.0]])),
        lambda h, w, a: 2 * h[:2] @ torch.softmax(_additive_scores(h, a), 0),
    ),
    "attention by hand": (_by_hand(), lambda h, w, a: (torch.softmax(h[:1], 1) * h).sum(1, keepdim=True)),
    "ctc": (
        cn.ctc(H, WORDS),
        lambda h, w, a: torch.nn.functional.ctc_loss(
            torch.log_softmax(h.T, 1)[:, None], w[None], [h.shape[1]], [len(w)], reduction="sum"
        ),
    ),
    "a layer above a reduction": (
        cn.tanh(cn.constant(np.ones((2, 4))) @ cn.sequence.mean(H) + cn.constant([[1.0], [2.0]])),
        lambda h, w, a: torch.tanh(h.mean(1, keepdim=True).sum(0) + torch.tensor([[1.0], [2.0]], dtype=h.dtype)),
    ),
}


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("name", FORMULAS)
def test_values_and_gradients(name: str, lengths: tuple[int, ...]) -> None:
    node, formula = FORMULAS[name]
    compare(node, formula, lengths)


@pytest.mark.filterwarnings("ignore:.*is a matrix, whose columns:UserWarning")
def test_lone_samples_are_sequences_of_one_frame() -> None:
    net = cn.Network(outputs={"v": cn.sequence.mean(H)}, dtype=torch.float64)
    x = RANDOM.normal(size=(3, 4))
    np.testing.assert_allclose(net.evaluate("v", {"x": x}), net.evaluate("h", {"x": x}))


def test_columns_of_a_table() -> None:
    """Class -1 is a column of zeros; the gradient of the table is PyTorch's."""
    table = cn.parameter("E", (3, 6))
    words = cn.input("w", classes=6)
    net = cn.Network(cn.sum_elements(cn.tanh(cn.embedding(table, words, name="e"))), dtype=torch.float64)
    given = [np.array([5, 0, 5]), np.array([-1, 2])]
    value = net.evaluate("e", {"w": cn.sequences(given)})
    for ours, numbers in zip(value, given, strict=True):
        np.testing.assert_array_equal(ours, np.where(numbers < 0, 0.0, table.value[:, numbers]))
    E = torch.tensor(table.value, requires_grad=True)
    torch.tanh(E[:, [5, 0, 5, 2]]).sum().backward()
    np.testing.assert_allclose(net.gradients({"w": cn.sequences(given)})["E"], E.grad, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: cn.sequence.mean(cn.parameter("P", (2, 3))), "reduce_sequence needs operands with samples"),
        (lambda: cn.broadcast_as(H, ANSWER), "first operand with one column for each sequence"),
        (lambda: cn.sequence.gather(H, ANSWER), "one row of numbers of frames"),
        (lambda: cn.attention(A, X, X), "queries and keys of as many rows"),
        (lambda: cn.additive_attention(A, H, H, cn.parameter("w", (3, 1))), "and a weight for each row"),
        (lambda: cn.additive_attention(A, H, H, cn.sequence.last(H)), "and a weight for each row"),
        (lambda: cn.ctc(H, ANSWER), "one row of class indexes"),
        (lambda: cn.ctc(H, WORDS, blank=4), "a blank that is a class"),
        (lambda: cn.ctc(X, WORDS), "ctc needs class indexes of at most 3 classes, got 4 classes"),
        (lambda: cn.embedding(cn.parameter("E", (2, 3)), WORDS), "class indexes of at most 3 classes, got 4"),
        (lambda: H + A, "plus can repeat over samples only an operand with one column"),
        (lambda: cn.embedding(H, WORDS), "embedding needs a table without samples"),
        (lambda: cn.embedding(cn.parameter("E", (2, 3)), ANSWER), "one row of class indexes"),
        (lambda: cn.input("x", (2, 3), axis="a"), "an axis is a name"),
        (lambda: cn.input("x", 2, axis="a b"), "an axis is a name"),
    ],
)
def test_operands_that_do_not_fit(make, says) -> None:
    with pytest.raises(ShapeError, match=says):
        make()


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_of_ctc_are_classes(label) -> None:
    """Labels that are declared to have few enough classes, or not declared at all, may still be wrong."""
    net = cn.Network(cn.ctc(X, cn.input("labels", 1, axis="word"), name="J"))
    batch = {"x": cn.sequences([RANDOM.normal(size=(3, 5))]), "labels": cn.sequences([np.array([[1.0, label]])])}
    with pytest.raises(ShapeError, match=rf"ctc: expected class indexes 0 \.\.\. 2, as .* got {label}"):
        net.criterion(batch)


@pytest.mark.parametrize(
    ("frames", "labels", "says"),
    [
        (3, [1, 2, 1, 2], r"sequence 1 has 4 labels, .* at least 4 frames were expected \(one for each\), got 3"),
        (4, [1, 1, 2, 2], r"at least 6 frames were expected \(one for each and 2 between equal ones\), got 4"),
        (0, [1], "at least 1 frames were expected .*, got 0"),
    ],
)
def test_labels_of_ctc_that_are_longer_than_the_frames(frames: int, labels: list[int], says: str) -> None:
    net = cn.Network(cn.ctc(X, cn.input("labels", classes=3, axis="word"), name="J"))
    arrays = [RANDOM.normal(size=(3, 5)), RANDOM.normal(size=(3, frames))]
    with pytest.raises(ShapeError, match=says):
        net.criterion({"x": cn.sequences(arrays), "labels": cn.sequences([[1, 1, 2], labels])})
    arrays[1] = RANDOM.normal(size=(3, 6))
    assert np.isfinite(net.criterion({"x": cn.sequences(arrays), "labels": cn.sequences([[1, 1, 2], labels])}))


def test_integers_have_no_gradient() -> None:
    table = cn.parameter("E", (2, 4))
    net = cn.Network(cn.sum_elements(cn.embedding(table, WORDS)))
    with pytest.raises(GradientError, match="embedding has no gradient with respect to integers"):
        net.gradients({"words": cn.sequences([[1, 2]])}, wrt=["words"])


def test_a_way_of_reducing_that_there_is_not() -> None:
    with pytest.raises(NetworkError, match=r"expected one of first, last, sum, mean, max, got 'min'"):
        cn.nodes.sequence.SequenceReduction("min")
