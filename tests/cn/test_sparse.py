"""Sparse inputs: all that dense ones give, and nothing of it made dense."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.cn.sparse import SparseColumns, as_array
from nnet3.errors import ArgumentError, ShapeError
from tests.cn.small_networks import WORDS, bag_classifier, few_elements
from tests.seeds import RANDOM


@pytest.fixture
def never_dense(monkeypatch) -> None:
    def fail(self) -> None:
        raise AssertionError("became dense")

    monkeypatch.setattr(SparseColumns, "toarray", fail)


def kinds_of(x: np.ndarray) -> dict[str, object]:
    kinds = {"torch": torch.as_tensor(x).to_sparse(), "twice": _in_halves(x), "array": x, "tensor": torch.as_tensor(x)}
    try:
        import scipy.sparse
    except ImportError:
        return kinds
    made = {name: getattr(scipy.sparse, f"{name}_array")(x) for name in ("csr", "csc", "coo", "lil")}
    return kinds | made | {"matrix": scipy.sparse.csr_matrix(x)}


def _in_halves(x: np.ndarray) -> torch.Tensor:
    """Each element in two parts, in an order of their own."""
    places = np.stack(np.nonzero(x))[:, ::-1].copy()
    values = x[tuple(places)] / 2
    places, values = np.concatenate([places, places], 1), np.concatenate([values, values])
    return torch.sparse_coo_tensor(places, values, x.shape, check_invariants=True)


@pytest.mark.parametrize("layout", ["columns", "rows"])
def test_what_dense_inputs_give(layout, never_dense) -> None:
    x, label = few_elements(5), [0, 2, 1, -1, 2]
    given = x if layout == "columns" else x.T
    net = bag_classifier(True, layout=layout)
    expected = bag_classifier(False, layout=layout).criterion_and_gradients({"x": given, "label": label})
    for name, value in kinds_of(given).items():
        found = net.criterion_and_gradients({"x": value, "label": label})
        assert found[0] == pytest.approx(expected[0], rel=1e-13), name
        for parameter, gradient in expected[1].items():
            np.testing.assert_allclose(found[1][parameter], gradient, atol=1e-14, err_msg=name)
        assert net.evaluate("x", {"x": value}).shape == given.shape
    gradient = net.tensors()["W"].grad
    assert gradient.is_sparse
    assert set(gradient.coalesce().indices()[0].tolist()) == set(np.nonzero(x.any(1))[0])


def test_sequences(never_dense) -> None:
    """Of several lengths, in an order that the machine changes; one of them empty of words."""
    x = [few_elements(2), few_elements(4), np.zeros((WORDS, 3))]
    labels = cn.sequences([RANDOM.integers(0, 3, size=each.shape[1]) for each in x])
    expected = bag_classifier(False).criterion_and_gradients({"x": cn.sequences(x), "label": labels})
    sparse = [torch.as_tensor(each).to_sparse() for each in x]
    for given in (cn.sequences(sparse), cn.sequences([each.T.to_sparse() for each in sparse], layout="rows")):
        found = bag_classifier(True).criterion_and_gradients({"x": given, "label": labels})
        assert found[0] == pytest.approx(expected[0], rel=1e-13)
        np.testing.assert_allclose(found[1]["W"], expected[1]["W"], atol=1e-14)


def test_sequences_in_pieces_and_by_a_reader(never_dense) -> None:
    x = [few_elements(5), few_elements(2), few_elements(4)]
    sparse = [torch.as_tensor(each).to_sparse() for each in x]
    net = cn.Network(
        outputs={"y": cn.parameter("W", (2, WORDS)) @ cn.input("x", WORDS, sparse=True)}, dtype=torch.float64
    )
    W = net.find("W").value
    pieces = list(cn.truncated(net, {"x": cn.sequences(sparse)}, 3))
    np.testing.assert_allclose(net.evaluate("y", pieces[1])[0], W @ x[0][:, 3:])
    reader = cn.Minibatches({"x": sparse, "all": torch.as_tensor(few_elements(3)).to_sparse()}, frames=6, shuffle=False)
    (first, second) = reader()
    np.testing.assert_allclose(net.evaluate("y", {"x": second["x"]})[-1], W @ x[2])
    assert first["all"].shape == (WORDS, 1)


def test_a_value_is_known_until_the_numbers_change(never_dense) -> None:
    net, x = bag_classifier(True), torch.as_tensor(few_elements(5)).to_sparse().coalesce()
    net.evaluate("h", {"x": x})
    net.evaluate("h", {"x": x.clone()})
    assert net.computed == ()
    net.evaluate("h", {"x": x * 2})
    assert "h" in net.computed
    net.evaluate("h", {"x": (x * 2).index_select(1, torch.tensor([0, 1, 2, 4, 3]))})
    assert "h" in net.computed


def test_bags_of_words(never_dense) -> None:
    bags = cn.bags([[3, 4, 4], [], np.array([0])], 5)
    assert (bags.row.tolist(), bags.column.tolist(), bags.values.tolist()) == ([3, 4, 0], [0, 0, 2], [1, 2, 1])
    net = cn.Network(outputs={"y": cn.parameter("W", (2, 5)) @ cn.input("x", 5, sparse=True)}, dtype=torch.float64)
    W = net.find("W").value
    np.testing.assert_allclose(net.evaluate("y", {"x": bags}).T, [W[:, 3] + 2 * W[:, 4], [0, 0], W[:, 0]])


@pytest.mark.parametrize(
    ("lists", "says"),
    [
        ([[0], [4, 5]], r"bag 1: expected numbers 0 \.\.\. 4, got 5"),
        ([[-1]], r"bag 0: expected numbers 0 \.\.\. 4, got -1"),
        ([[0.5]], "bag 0: expected a list of integers, got shape .* of float64"),
        ([1, 2], r"bag 0: expected a list of integers, got shape \(\)"),
        ([["word"]], "bag 0: expected a matrix of numbers"),
        (3, "bags of words"),
    ],
)
def test_what_is_no_bag(lists, says) -> None:
    with pytest.raises((ShapeError, ArgumentError), match=says):
        cn.bags(lists, 5)


class SparseMatrix:
    """What SciPy's sparse matrices have."""

    def toarray(self) -> np.ndarray:
        return np.array([[1.0, 0.0], [2.0, 3.0]])


@pytest.mark.parametrize(
    "value",
    [
        [[1, 0], [2, 3]],
        ((1.0, 0.0), (2.0, 3.0)),
        np.array([[1, 0], [2, 3]], np.uint8),
        np.ma.masked_array([[1.0, 0.0], [2.0, 3.0]], mask=False),
        torch.tensor([[1, 0], [2, 3]]),
        torch.tensor([[1.0, 0.0], [2.0, 3.0]], dtype=torch.bfloat16),
        torch.tensor([[1.0, 0.0], [2.0, 3.0]], dtype=torch.float16),
        torch.tensor([[1.0, 0.0], [2.0, 3.0]]).to_sparse(),
        SparseMatrix(),
    ],
)
def test_numbers_of_all_kinds_become_arrays(value) -> None:
    array = as_array(value, "it")
    assert isinstance(array, np.ndarray)
    np.testing.assert_array_equal(array, [[1, 0], [2, 3]])


def test_truth_values_are_numbers() -> None:
    for value in (torch.tensor([True, False]), np.array([True, False]), [True, False]):
        np.testing.assert_array_equal(as_array(value, "it"), [1, 0])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.ma.masked_array([1.0, 2.0], mask=[True, False]), r"it: some elements of this array are masked: .*filled"),
        ([[1.0], [1.0, 2.0]], r"it: expected numbers, got \[\[1.0\], \[1.0, 2.0\]\]; .* given as cn.sequences"),
        (["a", "b"], r"it: expected a matrix of numbers, got shape \(2,\) of <U1"),
        (np.ones(2, complex), r"it: expected a matrix of numbers, got shape \(2,\) of complex128"),
        (None, "it: expected a matrix of numbers, got shape .* of object"),
        (torch.ones(2, dtype=torch.complex64), "it: expected floats or integers, got torch.complex64"),
    ],
)
def test_what_are_no_numbers(value, says) -> None:
    with pytest.raises(ShapeError, match=says):
        as_array(value, "it")


@pytest.mark.parametrize("kind", [torch.int16, torch.int32, torch.int64, torch.uint8])
def test_integers_of_tensors_stay_exact(kind) -> None:
    largest = torch.iinfo(kind).max
    array = as_array(torch.tensor([largest, 1], dtype=kind), "it")
    assert array.dtype.kind in "iu"
    assert array.tolist() == [largest, 1]
