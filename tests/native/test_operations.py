"""Operations of native code against float64 PyTorch: any rows, strides and numbers; what they do not take."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from nnet3.base.native import operations as native
from nnet3.base.native.operations import Operations
from nnet3.base.native.panels import Panels
from tests.native.native_code import matrix, needs_native_code, run_once

pytestmark = needs_native_code

ULPS = 4.0  # units in the last place, or of the least normal number
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-38, -1e-38, 3e38, -3e38, 88.8, -88.8, -104.5]


def ulps(found: Tensor, expected: Tensor) -> Tensor:
    """Returns how far numbers of float32 are from those of float64, which may not be finite."""
    size = expected.abs().clamp(2.0**-126, 3.4e38)
    unit = torch.exp2(torch.floor(torch.log2(size)) - 23)
    same = (found.double() == expected) | (found.isnan() & expected.isnan())
    return torch.where(same, 0.0, (found.double() - expected).abs() / unit)


@pytest.mark.parametrize(("operation", "function"), [(native.sigmoid, torch.sigmoid), (native.tanh, torch.tanh)])
def test_sigmoid_and_tanh_are_exact_to_a_few_units_everywhere(
    operation: Callable[[Tensor, Tensor], Operations | None], function: Callable[[Tensor], Tensor]
) -> None:
    sizes = torch.logspace(-45, 38.5, 4000)
    parts = [torch.linspace(-110, 110, 20_001), torch.linspace(-1, 1, 5001), sizes, -sizes, torch.tensor(SPECIAL)]
    for x in torch.cat(parts).split(30_000):
        y = torch.empty(1, len(x))
        run_once(operation(y, x.view(1, -1)))
        assert ulps(y[0], function(x.double())).max() <= ULPS
        assert torch.equal(y[0].isnan(), x.isnan())
        assert torch.equal(y[0].signbit() & ~x.isnan(), (function(x) < 0) | ((x == 0) & function(x).signbit()))


@given(st.integers(0, 9), st.integers(1, 70), st.integers(0, 10**6))
def test_operations_by_element(rows: int, columns: int, seed: int) -> None:
    torch.manual_seed(seed)
    a, b, vector = matrix(rows, columns), matrix(rows, columns), torch.randn(columns)
    before, y = matrix(rows, columns), matrix(rows, columns)
    y.copy_(before)
    cases: list[tuple[Operations | None, Tensor]] = [
        (native.copy(y, a), a),
        (native.fill(y, 0.25), torch.full_like(a, 0.25)),
        (native.add(y, b), a * 0 + 0.25 + b),
        (native.add(y, a, alpha=-2.0), 0.25 + b - 2 * a),
        (native.scale(y, 3.0), 3 * (0.25 + b - 2 * a)),
        (native.scaled_copy(y, a, 0.5), a / 2),
        (native.multiply(y, a, b), a * b),
        (native.multiply(y, a, vector), a * vector),
        (native.multiply(y, y, y), (a * vector) ** 2),
        (native.sigmoid(y, a), torch.sigmoid(a)),
        (native.tanh(y, y), torch.tanh(torch.sigmoid(a))),
        (native.relu(y, a), a.clamp_min(0.0)),
        (native.copy(y, y), a.clamp_min(0.0)),
        (native.add(y, a, -0.5, vector), vector - a / 2),
        (native.multiply(y, a, b, vector.view(1, -1), 2.0), vector + 2 * a * b),
        (native.multiply(y, a, b, y, -1.0), vector + a * b),
        (native.sigmoid_backward(y, a, b, None), a * b * (1 - b)),
        (native.sigmoid_backward(y, a, a, y), a * b * (1 - b) + a * a * (1 - a)),
        (native.tanh_backward(y, a, b, None), a * (1 - b * b)),
        (native.tanh_backward(y, y, b, y), a * (1 - b * b) * (2 - b * b)),
        (native.relu_backward(y, a, b, None), a * (b > 0)),
        (native.relu_backward(y, a, a, y), a * (b > 0) + a * (a > 0)),
        (native.normalize(y, b, 0.5), b / (b.norm(dim=1, keepdim=True) / math.sqrt(columns) / 0.5)),
        (native.zero(y), torch.zeros_like(a)),
    ]
    for operations, expected in cases:
        run_once(operations)
        torch.testing.assert_close(y, expected, rtol=2e-6, atol=2e-6)


@given(st.integers(0, 9), st.integers(1, 70), st.integers(0, 10**6))
def test_sums_of_rows(rows: int, columns: int, seed: int) -> None:
    torch.manual_seed(seed)
    a, b, addend, y = matrix(rows, columns), matrix(rows, columns), matrix(1, columns), matrix(1, columns)
    for other, added, factor in ((None, None, 1.0), (b, addend, -2.0), (None, y, 0.5)):
        expected = factor * (a if other is None else a * other).double().sum(0, keepdim=True)
        expected += 0.0 if added is None else added.double()
        run_once(native.sum_rows(y, a, other, added, factor))
        torch.testing.assert_close(y.double(), expected, rtol=2e-6, atol=1e-5)


def test_nothing_but_the_columns_is_written() -> None:
    for rows, columns in ((1, 1), (3, 15), (2, 16), (5, 33)):
        wide = torch.full((rows + 2, columns + 4), 7.0)
        part = wide[1:-1, 2:-2]
        x, weights = torch.ones(rows, 3), torch.ones(columns, 3)
        run_once(native.fill(part, 1.0))
        run_once(native.product(part, x, weights, None))
        assert torch.equal(part, torch.full_like(part, 3.0))
        assert float(wide.sum()) == 7.0 * wide.numel() - 4.0 * part.numel()


def check_product(x: Tensor, weights: Tensor, added: str, factor: float, packs: bool = False) -> Operations | None:
    """A product with an addend of some shape; returns its operations."""
    rows, columns = len(x), len(weights)
    y = matrix(rows, columns)
    y.normal_()
    addends = {"none": None, "bias": torch.randn(columns), "row": matrix(1, columns), "itself": y}
    addend = addends[added] if added in addends else matrix(rows, columns)
    expected = factor * (x.double() @ weights.double().t()) + (0.0 if addend is None else addend.double())
    found = native.product(y, x, weights, addend, factor, packs=packs)
    run_once(found)
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=3e-5)
    return found


ADDED = st.sampled_from(["none", "bias", "row", "matrix", "itself"])


@given(
    st.integers(0, 20), st.integers(1, 80), st.integers(0, 40), ADDED, st.sampled_from([1.0, -0.5]),
    st.booleans(), st.booleans(), st.integers(0, 10**6),
)  # fmt: skip
def test_products(
    rows: int,
    columns: int,
    inner: int,
    added: str,
    factor: float,
    iteration_x: bool,
    iteration_weights: bool,
    seed: int,
) -> None:
    """However the weights lie; x lies row by row unless the weights lie the other way."""
    torch.manual_seed(seed)
    weights = matrix(inner, columns).t() if iteration_weights else matrix(columns, inner)
    x = matrix(inner, rows).t() if iteration_x and iteration_weights and columns > 1 < inner else matrix(rows, inner)
    check_product(x, weights, added, factor)


@given(st.integers(6, 40), ADDED, st.sampled_from([1.0, -0.5]), st.booleans(), st.integers(0, 10**6))
def test_products_by_panels(rows: int, added: str, factor: float, iteration: bool, seed: int) -> None:
    torch.manual_seed(seed)
    x, weights = matrix(rows, 150), (matrix(150, 77).t() if iteration else matrix(77, 150))
    assert len(check_product(x, weights, added, factor, packs=True) or ()) == 2 + (added == "none")


@given(st.integers(0, 40), st.integers(1, 80), st.sampled_from(["bias", "row", "matrix", "itself"]))
def test_products_by_given_panels(rows: int, columns: int, added: str) -> None:
    x, y, weights = matrix(rows, 30), matrix(rows, columns), torch.randn(columns, 50)
    addends = {"bias": torch.randn(columns), "row": matrix(1, columns), "matrix": matrix(rows, columns), "itself": y}
    expected = addends[added].double() + x.double() @ weights[:, 9:39].double().t()
    part = Panels(weights).part(9, 39)
    run_once(native.panel_product(y, x, part.panels, addends[added]))
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=3e-5)


def test_products_with_what_is_not_finite() -> None:
    x, weights, y = torch.ones(3, 40), torch.ones(2, 40), torch.empty(3, 2)
    x[0, 37], x[1, 3], weights[1, 0] = math.nan, math.inf, -math.inf
    run_once(native.product(y, x, weights, None))
    torch.testing.assert_close(y, x @ weights.t(), equal_nan=True)


@given(st.integers(0, 9), st.integers(1, 70), st.booleans(), st.sampled_from([0.1, 1.0, 30.0]), st.integers(0, 10**6))
def test_lstms(rows: int, cells: int, use_dropout: bool, scale: float, seed: int) -> None:
    torch.manual_seed(seed)
    x, y, params = matrix(rows, 5 * cells + 3 * use_dropout, scale), matrix(rows, 2 * cells), torch.randn(3, cells)
    run_once(native.lstm(y, x, params, use_dropout))
    i, f, candidate, o, previous = x[:, : 5 * cells].double().split(cells, 1)
    of_i, of_f, of_o = x[:, 5 * cells :].double().split(1, 1) if use_dropout else (1.0, 1.0, 1.0)
    w_i, w_f, w_o = params.double()
    c = of_f * torch.sigmoid(f + w_f * previous) * previous
    c = c + of_i * torch.sigmoid(i + w_i * previous) * candidate.tanh()
    m = of_o * torch.sigmoid(o + w_o * c) * c.tanh()
    torch.testing.assert_close(y.double(), torch.cat([c, m], 1), rtol=1e-5, atol=1e-5)


@given(st.integers(0, 9), st.integers(1, 70), st.booleans(), st.integers(0, 10**6))
def test_grus(rows: int, cells: int, has_weights: bool, seed: int) -> None:
    torch.manual_seed(seed)
    part, previous, z = matrix(rows, cells), matrix(rows, cells), matrix(rows, cells).sigmoid_()
    weights = torch.randn(cells) if has_weights else None
    y = matrix(rows, 2 * cells)
    h, c = y[:, :cells], y[:, cells:]
    h.copy_(part)
    run_once(native.gru(h, h, weights, previous, z, c))
    expected = torch.tanh(part.double() + (weights.double() if weights is not None else 0.0) * previous)
    torch.testing.assert_close(h.double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(c.double(), (1 - z.double()) * expected + z.double() * previous, rtol=1e-5, atol=1e-6)


def test_what_native_code_does_not_take() -> None:
    y, x = torch.empty(2, 6), torch.randn(2, 6)
    assert native.copy(y, x) is not None
    assert native.copy(y, x.double()) is None
    assert native.copy(y, torch.randn(6, 2).t()) is None
    assert native.copy(y, x[:, :1]) is None
    assert native.copy(y[:1], x) is None
    assert native.copy(y.view(2, 2, 3), x.view(2, 2, 3)) is None
    assert native.copy(y.to("meta"), x.to("meta")) is None
    assert native.copy(torch.empty(2, 2**15), torch.empty(2, 2**15)) is None
    assert native.product(torch.empty(9, 2**12), torch.randn(9, 6), torch.randn(2**12, 6), None, packs=True) is None
    assert native.product(torch.empty(9, 200), torch.randn(200, 9).t(), torch.randn(200, 200), None, packs=True) is None
    assert native.product(torch.empty(9, 200), torch.randn(9, 200), torch.randn(200, 200), None) is None
    assert native.panel_product(y, x, Panels(torch.randn(6, 6)).panels, torch.randn(3, 6)) is None
    assert native.panel_product(y, torch.randn(6, 2).t(), Panels(torch.randn(6, 6)).panels, y) is None
    assert native.sum_rows(torch.empty(2, 6), x) is None
    assert native.sum_rows(torch.empty(1, 6), x, torch.randn(1, 6)) is None
    assert native.product(y, x, torch.randn(6, 6), torch.randn(2, 1)) is None
    assert native.lstm(torch.empty(1, 2**16), torch.empty(1, 5 * 2**15), torch.empty(3, 2**15), False) is None
    assert native.lstm(torch.empty(1, 4), torch.empty(1, 10), torch.empty(2, 3).t(), False) is None
    assert native.in_a_row(native.copy(y, x), None) is None
    assert len(native.in_a_row(native.copy(y, x), native.zero(y)) or ()) == 2
