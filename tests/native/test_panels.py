"""Products by panels: any shapes, strides and threads, against products of float64."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from nnet3.base.native import panels as room
from nnet3.base.native.panels import Panels, PanelsOfOffsets, product
from tests.components.finite_differences import strided
from tests.native.native_code import needs_native_code

pytestmark = needs_native_code

SHAPES = [(1, 1), (1, 40), (31, 7), (32, 5), (33, 64), (100, 3), (160, 200), (70, 601)]  # columns, inner


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def exact(x: Tensor, weights: Tensor, addend: Tensor) -> Tensor:
    return (addend.double() + x.double() @ weights.double().T).float()


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(("columns", "inner"), SHAPES)
def test_products_are_those_of_matrices(
    columns: int, inner: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_FEWEST_FOR_THREADS", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    weights, bias = numbers(columns, inner), numbers(columns)
    packed = Panels(weights)
    assert torch.equal(packed.to_dense(), weights)
    x = numbers(200, inner)
    of_all = torch.empty(200, columns)
    packed.multiply(x, of_all, bias)
    torch.testing.assert_close(of_all, exact(x, weights, bias), rtol=1e-5, atol=1e-4)
    for rows in (0, 1, 2, 5, 6, 11, 12, 13, 24, 25, 37, 75, 200):
        y = strided(torch.full((rows, columns), torch.nan))
        packed.multiply(strided(x[:rows]), y, bias)
        assert torch.equal(y, of_all[:rows]), "a row must not depend on the others"
        before = y.clone()
        packed.multiply(x[:rows], y, y)
        torch.testing.assert_close(y, exact(x[:rows], weights, before), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 3, 40])
def test_parts_are_in_the_same_memory(rows: int) -> None:
    weights, bias, y = numbers(100, 60), numbers(100), torch.empty(rows, 100)
    whole = Panels(weights)
    part = whole.part(7, 50)
    x = numbers(rows, 43)
    part.multiply(x, y, bias)
    torch.testing.assert_close(y, exact(x, weights[:, 7:50], bias), rtol=1e-5, atol=1e-4)
    assert torch.equal(part.to_dense(), weights[:, 7:50])
    assert part.panels.untyped_storage().data_ptr() == whole.panels.untyped_storage().data_ptr()
    with pytest.raises(ValueError, match="panels of 100 x 43"):
        part.multiply(numbers(rows, 60), y, bias)


BLOCKS = {  # offset; first row and end of y; first row, end and step of x
    "one": [(0, 0, 0, 0, 0, 1)],
    "two of all rows": [(0, 0, 0, 0, -1, 1), (1, 0, 0, 1, 0, 1)],
    "every second row": [(1, 0, 0, 1, 0, 2), (0, 0, 0, 0, 0, 2)],
    "different steps": [(1, 0, 0, 1, 0, 1), (0, 0, 0, 0, 0, 2), (2, 0, 0, 3, 0, 2)],
    "parts": [(0, 2, 0, 0, 0, 1), (1, 2, 0, 5, 0, 1), (2, 0, -3, 1, 0, 1)],
    "none": [],
}


@pytest.mark.parametrize("columns", [1, 17, 40, 64, 100])
@pytest.mark.parametrize("rows", [4, 5, 13, 40, 400])
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_rows_are_summed_as_one_by_one(name: str, rows: int, columns: int) -> None:
    blocks, inner = BLOCKS[name], 300 if rows == 13 else 20
    weights = [Panels(numbers(columns, inner + number)[:, number:].contiguous()) for number in range(3)]
    x, bias, y = numbers(2 * rows + 9, inner), numbers(columns), strided(torch.full((rows, columns), torch.nan))
    expected = bias.repeat(rows, 1)
    for offset, begin, end, first, _, step in blocks:
        some = expected[begin : rows + end]
        weights[offset].multiply(x[first::step][: len(some)], some, some.clone())
    PanelsOfOffsets(weights).multiply(strided(x), y, bias, np.array(blocks, np.int64).reshape(-1, 6))
    assert torch.equal(y, expected)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(("columns", "inner"), [(40, 3), (64, 160), (300, 40), (70, 1100), (33, 601), (32, 50)])
def test_rows_of_sums_do_not_depend_on_their_number_by_amx(
    columns: int, inner: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_FEWEST_FOR_THREADS", 1)
    weights, bias = [numbers(columns, inner), numbers(columns, inner + 1)[:, 1:].contiguous()], numbers(columns)
    packed = PanelsOfOffsets([Panels(each) for each in weights])
    x, of_all = numbers(603, inner), torch.empty(600, columns)
    blocks = np.array([(0, 0, 0, 0, 0, 1), (1, 0, 0, 3, 0, 1)], np.int64)
    packed.multiply(x, of_all, bias, blocks, by_amx=True)
    expected = exact(x[:600], weights[0], bias).double() + x[3:].double() @ weights[1].double().T
    torch.testing.assert_close(of_all, expected.float(), rtol=1e-5, atol=1e-4)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    for first, rows in ((0, 1), (5, 2), (0, 7), (3, 16), (1, 17), (40, 33), (9, 255), (9, 257), (0, 600)):
        around = torch.full((rows + 2, columns + 3), torch.nan)
        y = around[1:-1, 1:-2]
        packed.multiply(strided(x[first : first + rows + 3]), y, bias, blocks, by_amx=True)
        assert torch.equal(y, of_all[first : first + rows]), "a row must not depend on the others"
        assert around.isnan().sum() == around.numel() - y.numel(), "what is beside the result must stay"


@pytest.mark.parametrize(
    "change",
    [(0, -1), (0, 2), (1, -1), (2, 1), (1, 8), (3, -1), (3, 4), (3, 99), (5, 0), (5, 2), (5, 2**62)]
    + [(number, limit) for number in (0, 1, 2, 3, 5) for limit in (-(2**63), 2**63 - 1)],
)
def test_blocks_that_do_not_fit_are_refused(change: tuple[int, int]) -> None:
    weights, y = PanelsOfOffsets([Panels(numbers(40, 20)), Panels(numbers(40, 20))]), torch.zeros(8, 40)
    blocks = np.array([(0, 0, 0, 0, 0, 1), (1, 0, 0, 3, 0, 1)], np.int64)
    weights.multiply(numbers(11, 20), y, numbers(40), blocks)
    blocks[1, change[0]], before = change[1], y.clone()
    with pytest.raises(ValueError, match="panels of 40 x 20"):
        weights.multiply(numbers(11, 20), y, numbers(40), blocks)
    assert torch.equal(y, before)
    with pytest.raises(ValueError, match="panels of 40 x 20"):
        weights.multiply(numbers(11, 21), y, numbers(40), blocks[:1])


def test_panels_are_of_the_type_of_their_weights() -> None:
    weights = numbers(33, 9)
    torch.set_default_dtype(torch.float64)
    try:
        packed = Panels(weights)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(packed.to_dense(), weights)


def test_what_is_beside_the_result_stays() -> None:
    around = torch.full((20, 70), 3.0)
    Panels(numbers(33, 9)).multiply(numbers(18, 9), around[1:19, 10:43], numbers(33))
    assert (around[[0, 19]] == 3.0).all()
    assert (around[:, :10] == 3.0).all()
    assert (around[:, 43:] == 3.0).all()
    assert (around[1:19, 10:43] != 3.0).all()


def test_rows_and_columns_of_x_however_they_lie() -> None:
    weights, bias = numbers(40, 6), numbers(40)
    packed, y = Panels(weights.T.contiguous().T), torch.empty(5, 40)
    for x in (numbers(15, 6)[::3], numbers(6, 5).T, numbers(1, 6).expand(5, 6)):
        packed.multiply(x, y, bias)
        torch.testing.assert_close(y, exact(x, weights, bias))


def test_numbers_that_are_not_finite_stay_in_their_rows() -> None:
    x = numbers(30, 8)
    x[3, 2], x[7, 5], x[20, 0] = torch.nan, torch.inf, -torch.inf
    y = torch.empty(30, 50)
    Panels(numbers(50, 8)).multiply(x, y, torch.zeros(50))
    assert y[3].isnan().all()
    assert y[[7, 20]].isinf().all()
    assert y[[row for row in range(30) if row not in (3, 7, 20)]].isfinite().all()


def test_threads_of_the_caller_share_panels() -> None:
    packed, x, bias = Panels(numbers(700, 300)), numbers(64, 300), numbers(700)
    results = [torch.empty(64, 700) for _ in range(4)]
    callers = [threading.Thread(target=packed.multiply, args=(x, y, bias)) for y in results]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all(torch.equal(y, results[0]) for y in results)
    torch.testing.assert_close(results[0], exact(x, packed.to_dense(), bias), rtol=1e-5, atol=1e-4)


def test_other_shapes_are_refused() -> None:
    packed, y, bias = Panels(numbers(4, 3)), torch.empty(2, 4), torch.zeros(4)
    for x, result, addend in (
        (numbers(2, 4), y, bias),
        (numbers(3, 3), y, bias),
        (numbers(2, 3), torch.empty(2, 5), bias),
        (numbers(2, 3), y, torch.zeros(3)),
        (numbers(2, 3), torch.empty(4, 2).T, bias),
    ):
        with pytest.raises(ValueError, match=r"panels of 4 x 3|side by side"):
            packed.multiply(x, result, addend)


def test_without_native_code_there_are_no_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "library", lambda: None)
    with pytest.raises(RuntimeError, match="no native code"):
        Panels(numbers(2, 2))
    with pytest.raises(RuntimeError, match="no native code"):
        product(numbers(2, 2), numbers(2, 2), numbers(2, 2))


LAYOUTS = ("rows", "columns", "part of rows", "part of columns", "every other", "one row for all")


def laid(matrix: Tensor, layout: str) -> Tensor:
    """Returns the matrix with its numbers elsewhere in memory, not aligned; for `one row for all`, its first row."""
    rows, columns = matrix.shape
    if layout == "one row for all":
        return matrix[:1].expand(rows, columns)
    shape, view = {
        "rows": ((rows, columns), lambda wide: wide),
        "columns": ((columns, rows), lambda wide: wide.t()),
        "part of rows": ((rows + 2, columns + 3), lambda wide: wide[1:-1, 2:-1]),
        "part of columns": ((columns + 3, rows + 2), lambda wide: wide[1:-2, 1:-1].t()),
        "every other": ((2 * rows, 3 * columns), lambda wide: wide[::2, ::3]),
    }[layout]
    found: Tensor = view(torch.full(shape, torch.nan))
    return found.copy_(matrix)


SIZES = st.sampled_from([1, 2, 11, 12, 13, 16, 17, 25, 31, 32, 33, 64, 95, 200])


@given(
    rows=SIZES,
    columns=SIZES,
    inner=st.sampled_from([1, 2, 15, 16, 17, 100, 383, 384, 385, 800]),
    of_left=st.sampled_from(LAYOUTS),
    of_right=st.sampled_from(LAYOUTS),
    added=st.sampled_from(["nothing", "y", "matrix", "row", "vector"]),
    alpha=st.sampled_from([1.0, -1.0, 0.25]),
    threads=st.sampled_from([1, 2, 3]),
    by_amx=st.booleans(),
)
def test_products_of_any_matrices(
    rows: int,
    columns: int,
    inner: int,
    of_left: str,
    of_right: str,
    added: str,
    alpha: float,
    threads: int,
    by_amx: bool,
) -> None:
    left, right = laid(numbers(rows, inner), of_left), laid(numbers(inner, columns), of_right)
    around = torch.full((rows + 2, columns + 3), torch.nan)
    y = around[1:-1, 1:-2]
    addend = None
    if added == "y":
        addend = y.copy_(numbers(rows, columns))
    elif added != "nothing":
        addend = {"matrix": numbers(rows, columns), "row": numbers(1, columns), "vector": numbers(columns)}[added]
    expected = alpha * (left.double() @ right.double()) + (0.0 if addend is None else addend.double())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "_FEWEST_FOR_THREADS", 1)
        patch.setattr(torch, "get_num_threads", lambda: threads)
        product(y, left, right, addend, alpha, by_amx=by_amx)
    torch.testing.assert_close(y, expected.float(), rtol=1e-5, atol=1e-5 * inner**0.5)
    assert around.isnan().sum() == around.numel() - y.numel(), "what is beside the result must stay"


@pytest.mark.parametrize("by_amx", [False, True])
def test_numbers_depend_on_their_row_and_column_alone(by_amx: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_FEWEST_FOR_THREADS", 1)
    left, right, bias = numbers(400, 900), numbers(900, 1100), numbers(1100)
    of_all = torch.empty(400, 1100)
    product(of_all, left, right, bias, 0.5, by_amx=by_amx)
    for threads in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        for rows, columns in (
            (slice(0, 400), slice(0, 1100)),
            (slice(7, 30), slice(3, 40)),
            (slice(390, 391), slice(1000)),
        ):
            some, right_of_some = strided(left[rows]), right[:, columns].t().contiguous().t()
            y = torch.empty(len(some), right_of_some.shape[1])
            product(y, some, right_of_some, bias[columns], 0.5, by_amx=by_amx)
            assert torch.equal(y, of_all[rows, columns])


@pytest.mark.parametrize("columns", [20, 40])
@pytest.mark.parametrize("rows", [4, 30])
def test_rows_that_share_places_of_the_cache(rows: int, columns: int) -> None:
    left, right = numbers(rows, 2048)[:, :1000], numbers(1000, columns)
    y = torch.empty(rows, columns)
    product(y, left, right)
    torch.testing.assert_close(y, (left.double() @ right.double()).float(), rtol=1e-5, atol=3e-4)


@pytest.mark.parametrize("inner", [6144, 6145, 13000])
def test_sums_longer_than_one_panel_holds(inner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_FEWEST_FOR_THREADS", 1)
    left, right = numbers(50, inner), numbers(inner, 20)
    results = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        results.append(torch.empty(50, 20))
        product(results[-1], left, right)
        assert torch.equal(results[-1], results[0])
    torch.testing.assert_close(results[0], (left.double() @ right.double()).float(), rtol=1e-5, atol=3e-3)
    some = torch.empty(9, 20)
    product(some, left[30:39], right)
    assert torch.equal(some, results[0][30:39])


@pytest.mark.parametrize("by_amx", [False, True])
def test_nothing_to_multiply(by_amx: bool) -> None:
    y = torch.full((3, 4), torch.nan)
    product(y, torch.empty(3, 0), torch.empty(0, 4), by_amx=by_amx)
    assert (y == 0).all()
    product(y, torch.empty(3, 0), torch.empty(0, 4), torch.arange(4.0), by_amx=by_amx)
    assert (y == torch.arange(4.0)).all()
    product(torch.empty(0, 4), torch.empty(0, 5), torch.empty(5, 4), by_amx=by_amx)
    product(torch.empty(3, 0), torch.empty(3, 5), torch.empty(5, 0), by_amx=by_amx)


@pytest.mark.parametrize("transposed", [False, True])
def test_numbers_that_are_not_finite_go_where_they_must(transposed: bool) -> None:
    left, right = torch.rand(30, 500) + 1, torch.rand(500, 50) + 1
    left[3, 2], right[450, 7] = torch.nan, torch.inf
    if transposed:
        left, right = left.t().contiguous().t(), right.t().contiguous().t()
    y = torch.full((30, 50), torch.nan)
    product(y, left, right)
    assert y[3].isnan().all()
    others = torch.arange(30) != 3
    assert y[others, 7].isposinf().all()
    assert y[others][:, torch.arange(50) != 7].isfinite().all()


def test_other_shapes_of_products_are_refused() -> None:
    y = torch.empty(2, 4)
    for result, left, right, addend, fault in (
        (y, numbers(2, 3), numbers(4, 4), None, "a product of matrices"),
        (y.t(), numbers(2, 3), numbers(3, 4), None, "a product of matrices"),
        (y, numbers(2, 3), numbers(3, 4), numbers(3), "cannot be added"),
        (y, numbers(2, 3), numbers(3, 4), numbers(3, 4), "cannot be added"),
        (torch.empty(4, 2).t(), numbers(2, 3), numbers(3, 4), None, "side by side"),
        (y, numbers(2, 3), numbers(3, 4), numbers(4, 2).t(), "side by side"),
    ):
        with pytest.raises(ValueError, match=fault):
            product(result, left, right, addend)
