"""Criteria and cosine: values, gradients of both operands, and counts that have none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import GradientError, NetworkError, ShapeError
from tests.cn.check_node import check_node, random, run_forward

x = cn.input("x", 4)
y = cn.input("y", 4)


def distribution(seed: int) -> torch.Tensor:
    return torch.softmax(random(4, 5, seed=seed), 0)


def test_square_error_is_the_formula() -> None:
    node = cn.square_error(x, y)
    check_node(
        node, [random(4, 5), random(4, 5, seed=1)], lambda a, b: 0.5 * torch.trace((a - b) @ (a - b).T)[None, None]
    )


def test_cross_entropy_is_the_formula() -> None:
    node = cn.cross_entropy(x, y)
    check_node(node, [distribution(0), distribution(1)], lambda a, b: -(a * b.log()).sum()[None, None])


def test_cross_entropy_of_classes_without_weight() -> None:
    labels = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    posterior = torch.tensor([[0.5, 0.0], [0.5, 1.0], [0.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    assert float(run_forward(cn.cross_entropy(x, y), [labels, posterior])) == pytest.approx(0.6931471805599453)


ABSENT = float("-inf")
LABELS = torch.tensor([[1.0, 0.0], [0.0, 0.7], [0.0, 0.3], [0.0, 0.0]], dtype=torch.float64)
SCORES = torch.tensor([[0.3, ABSENT], [0.1, 1.0], [-2.0, 0.5], [ABSENT, ABSENT]], dtype=torch.float64)


def of_what_is_there(labels: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """The criterion of the finite scores of each column alone."""
    total = torch.zeros((), dtype=torch.float64)
    for column, found in zip(labels.T, scores.T, strict=True):
        there = found.isfinite()
        total = total - (column[there] * torch.log_softmax(found[there], 0)).sum()
    return total[None, None]


def test_classes_without_weight_may_have_a_score_of_minus_infinity() -> None:
    check_node(cn.cross_entropy_with_softmax(x, y), [LABELS, SCORES], of_what_is_there, differences=False)

    def of_posterior(labels, posterior):
        there = posterior > 0
        return -(labels[there] * posterior[there].log()).sum()[None, None]

    check_node(cn.cross_entropy(x, y), [LABELS, torch.softmax(SCORES, 0)], of_posterior, differences=False)


def test_columns_without_labels_add_nothing_whatever_their_scores() -> None:
    for scores in (torch.full((4, 2), ABSENT, dtype=torch.float64), random(4, 2)):
        node = cn.cross_entropy_with_softmax(x, y)
        operands = [torch.zeros(4, 2, dtype=torch.float64), scores]
        check_node(node, operands, lambda a, b: 0 * a.sum()[None, None], gradients=[1], differences=False)


def test_a_wanted_class_that_cannot_be_costs_infinitely_much() -> None:
    labels = LABELS.roll(1, 0)
    assert float(run_forward(cn.cross_entropy_with_softmax(x, y), [labels, SCORES.roll(-1, 0)])) == float("inf")


@pytest.mark.parametrize("criterion", [cn.cross_entropy_with_softmax, cn.cross_entropy])
def test_a_network_with_scores_of_minus_infinity_learns(criterion) -> None:
    mask = cn.constant([0.0, 0.0, 0.0, ABSENT])
    scores = cn.plus(cn.parameter("W", (4, 3)) @ cn.input("f", 3), mask)
    wanted = scores if criterion is cn.cross_entropy_with_softmax else cn.softmax(scores)
    net = cn.Network(criterion(cn.input("l", 4), wanted), dtype=torch.float64)
    value, gradients = net.criterion_and_gradients({"f": random(3, 2).numpy(), "l": LABELS.numpy()})
    assert 0 < value < float("inf")
    assert np.isfinite(gradients["W"]).all()
    assert gradients["W"][:3].all()
    assert not gradients["W"][3].any()


@pytest.mark.parametrize("labels", [distribution(0), random(4, 5, positive=True)], ids=["distribution", "any weights"])
def test_cross_entropy_with_softmax(labels) -> None:
    node = cn.cross_entropy_with_softmax(x, y)
    check_node(node, [labels, random(4, 5)], lambda a, b: -(a * torch.log_softmax(b, 0)).sum()[None, None])


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_of_class_indexes_is_pytorchs(weighted, smoothing) -> None:
    labels, weights = torch.tensor([[2, -1, 0, 3, 2]]), cn.parameter("w", (4, 1))
    node = cn.cross_entropy_with_softmax(
        cn.input("c", classes=4), y, weights=weights if weighted else None, smoothing=smoothing
    )
    operands = [labels.double(), random(4, 5), *([random(4, 1, positive=True)] if weighted else [])]

    def formula(c, b, w=None):
        weight = None if w is None else w[:, 0].detach()
        value = torch.nn.functional.cross_entropy(
            b.T, c[0].long(), weight, ignore_index=-1, reduction="sum", label_smoothing=smoothing
        )
        return value[None, None]

    check_node(node, operands, formula, gradients=[1])
    if weighted:
        by_hand = _of_weights(labels[0], operands[1], smoothing)
        check_node(node, operands, by_hand, gradients=[2])
    if not weighted or smoothing == 0:
        with pytest.raises(GradientError, match="no gradient with respect to class indexes"):
            node.operation.check_gradient(0)


def _of_weights(labels, scores, smoothing):
    one_hot = torch.nn.functional.one_hot(labels.clamp(min=0), 4).double().T
    wanted = ((1 - smoothing) * one_hot + smoothing / 4) * (labels >= 0)
    return lambda c, b, w: -(w * wanted * torch.log_softmax(scores, 0)).sum()[None, None]


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_class_indexes_are_distributions_written_shortly(smoothing) -> None:
    weights = cn.constant([0.5, 1.0, 2.0, 0.1])
    classes = np.array([2, 0, 3, 2, 1])
    for given in (None, weights):
        shorts = cn.cross_entropy_with_softmax(cn.input("c", classes=4), y, weights=given, smoothing=smoothing)
        longs = cn.cross_entropy_with_softmax(x, y, weights=given, smoothing=smoothing)
        scores = random(4, 5).numpy()
        one = cn.Network(shorts, dtype=torch.float64).criterion({"c": classes, "y": scores})
        other = cn.Network(longs, dtype=torch.float64).criterion({"x": np.eye(4)[:, classes], "y": scores})
        assert one == pytest.approx(other)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_smoothing_is_a_part(smoothing) -> None:
    for labels in (x, cn.input("c", classes=4)):
        with pytest.raises(NetworkError, match="expected a smoothing of at least 0"):
            cn.cross_entropy_with_softmax(labels, y, smoothing=smoothing)


def test_cos_is_the_formula() -> None:
    def formula(a, b):
        return torch.nn.functional.cosine_similarity(a, b, dim=0)[None]

    check_node(cn.cos(x, y), [random(4, 5), random(4, 5, seed=1)], formula)


def test_cos_of_zero_is_zero() -> None:
    zero = torch.zeros(4, 5, dtype=torch.float64)
    for operands in ([zero, random(4, 5)], [random(4, 5), zero], [zero, zero]):
        check_node(cn.cos(x, y), operands, lambda a, b: (a * b).sum(0)[None] * 0, differences=False)


def test_classification_error_counts_columns() -> None:
    a = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=torch.float64)
    b = torch.tensor([[3.0, 1, 0], [1, 0, 0], [0, 0, 9], [0, 0, 0]], dtype=torch.float64)
    node = cn.classification_error(x, y)
    assert float(run_forward(node, [a, b])) == 1
    with pytest.raises(GradientError, match="classification_error has no gradient"):
        node.operation.check_gradient(0)


def test_wanted_classes_are_rows_of_the_scores() -> None:
    scores, labels = cn.input("scores", 3), cn.input("labels", 1)
    with pytest.raises(ShapeError, match="class indexes of at most 3 classes, got 4 classes"):
        cn.cross_entropy_with_softmax(cn.input("classes", classes=4), scores)
    for smoothing in (0.0, 0.1):
        net = cn.Network(cn.cross_entropy_with_softmax(labels, scores, smoothing=smoothing, name="J"))
        with pytest.raises(ShapeError, match=r"class_cross_entropy: expected class indexes -1 \.\.\. 2, .* got 3"):
            net.criterion({"scores": np.eye(3), "labels": np.array([[0.0, 3.0, -1.0]])})


def test_criteria_need_equal_shapes() -> None:
    with pytest.raises(ShapeError, match="equal shape"):
        cn.square_error(x, cn.input("z", 5))
