"""Run a component that looks at indexes by hand: from wanted inputs to derivatives, against a slow oracle.

The oracle is the component's formula for one output row, written with differentiable operations; derivatives are
compared with those that autograd finds through it. Padding rows are full of NaN, which must not get anywhere.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.base.index import NO_TIME, find_rows, unique_rows
from nnet3.components import Component, Properties
from tests.components.finite_differences import strided

Index = tuple[int, int, int]
Lookup = Callable[[int, int, int], "Tensor | None"]
Oracle = Callable[[Any, Lookup, Index], Tensor]


@dataclass(frozen=True)
class IndexCase:
    """Index tables in the order in which the component wants its rows, and what it made of them."""

    inputs: np.ndarray
    outputs: np.ndarray
    plan: Any

    @property
    def rows(self) -> tuple[int, int]:
        return len(self.inputs), len(self.outputs)

    @property
    def has_padding(self) -> bool:
        return bool((self.inputs[:, 1] == NO_TIME).any() or (self.outputs[:, 1] == NO_TIME).any())


def table(times: Iterable[int], ns: Iterable[int] = (0,), xs: Iterable[int] = (0,)) -> np.ndarray:
    """All combinations, sorted by t, x, n."""
    return np.array([(n, t, x) for t in sorted(times) for x in sorted(xs) for n in sorted(ns)], np.int32)


#: Outputs of components that read one x at some times: tables (rows, 3) by what is special in them.
ROW_SETS = {
    "one row": table([5]),
    "one time": table([5], ns=range(3)),
    "regular": table(range(5), ns=range(3)),
    "x": table(range(3), ns=range(2), xs=(-1, 1)),
    "one sequence, every third": table(range(0, 12, 3)),
    "every third": table(range(0, 12, 3), ns=(1, 3)),
    "hole in time": table([0, 1, 2, 4, 5], ns=range(2)),
    "hole in one sequence": np.delete(table(range(5), ns=range(3)), 7, axis=0),
    "two of three": table([0, 1, 3, 4, 6, 7], ns=range(2)),
    "different stretches": np.concatenate([table(range(4)), table(range(3, 9), ns=[2])]),
    "unsorted": table(range(4), ns=range(2))[::-1],
}


def precomputed(component: Component, inputs: np.ndarray, outputs: np.ndarray) -> Any:
    """What forward and backward get as indexes: by way of a file, as from a cache, of which arrays may be read-only."""
    arrays = component.precompute_indexes(inputs, outputs, need_backprop=True)
    assert arrays is not None
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    file.seek(0)
    saved = dict(np.load(file))
    for array in saved.values():
        assert array.dtype.kind in "iub"
        array.setflags(write=False)
    return component.load_indexes(saved, "cpu")


def index_case(component: Component, outputs: np.ndarray, available: np.ndarray) -> IndexCase:
    """What a compiler does: keep the outputs that can be computed, collect what they use, ask for row orders."""
    wanted = component.wanted_inputs(outputs)
    assert wanted.dtype == np.int32
    found = (find_rows(available, wanted.reshape(-1, 3)) >= 0).reshape(wanted.shape[:2])
    computable, used = component.computable(outputs, found)
    assert computable.dtype == bool
    assert not (used & ~found).any()
    outputs, used_rows = outputs[computable], wanted[computable][used[computable]]
    inputs, _ = unique_rows(used_rows)
    if component.properties & Properties.REORDERS_INDEXES:
        ordered_inputs, ordered_outputs = component.reorder_indexes(inputs, outputs)
        for given, ordered in ((inputs, ordered_inputs), (outputs, ordered_outputs)):
            real = ordered[ordered[:, 1] != NO_TIME]
            assert ordered.dtype == np.int32
            assert len(real) == len(given)
            assert (unique_rows(real)[0] == unique_rows(given)[0]).all()
        inputs, outputs = ordered_inputs, ordered_outputs
    plan = precomputed(component, inputs, outputs)
    return IndexCase(inputs, outputs, plan)


def rows_of(outputs: np.ndarray, available: np.ndarray) -> Callable[[Component], tuple[tuple[int, int], Any]]:
    """Returns what gives a component its numbers of rows and the indexes that its kernels get."""

    def rows(component: Component) -> tuple[tuple[int, int], Any]:
        case = index_case(component, outputs, available)
        return case.rows, case.plan

    return rows


def check_against_oracle(
    component: Component, outputs: np.ndarray, available: np.ndarray, oracle: Oracle, *, positive_input: bool = False
) -> IndexCase:
    """Assert that output, input derivative and plain parameter gradient are those of the oracle."""
    component = component.copy().to(dtype=torch.float64)
    case = index_case(component, outputs, available)
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(len(case.inputs), component.input_dim, generator=rng).double()
    x = _with_nan_padding(x.abs() + 0.5 if positive_input else x, case.inputs)
    y_deriv = _with_nan_padding(
        torch.randn(len(case.outputs), component.output_dim, generator=rng).double(), case.outputs
    )
    real_in, real_out = case.inputs[:, 1] != NO_TIME, case.outputs[:, 1] != NO_TIME
    expected, x_leaf, params = _run_oracle(component, case, x, oracle)

    given, y = strided(x), strided(torch.full_like(y_deriv, torch.nan))
    memo = component.forward(given, y, case.plan)
    assert y.isfinite().all(), "values of padding rows must be finite"
    torch.testing.assert_close(y[real_out], expected[real_out].detach(), rtol=1e-9, atol=1e-9)

    (expected[real_out] * y_deriv[real_out]).sum().backward()
    gradient = component.gradient_copy()
    x_deriv = strided(torch.full_like(x, torch.nan))
    component.backward(given, y, strided(y_deriv), memo, gradient, x_deriv, case.plan)
    wanted = torch.zeros_like(x) if x_leaf.grad is None else x_leaf.grad
    torch.testing.assert_close(x_deriv[real_in], wanted[real_in], rtol=1e-9, atol=1e-9)
    assert x_deriv.isfinite().all()
    for name, leaf in params.items():
        wanted = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        torch.testing.assert_close(gradient.parameters()[name], wanted, rtol=1e-9, atol=1e-9)
    return case


def _with_nan_padding(matrix: Tensor, indexes: np.ndarray) -> Tensor:
    matrix[indexes[:, 1] == NO_TIME] = torch.nan
    return matrix


def _run_oracle(
    component: Component, case: IndexCase, x: Tensor, oracle: Oracle
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Expected output (zeros in padding rows) and the leaves it depends on: input and parameters by name."""
    x_leaf = x.clone().requires_grad_()
    twin = component.copy()
    params = {name: tensor.clone().requires_grad_() for name, tensor in twin.parameters().items()}
    for name, leaf in params.items():
        setattr(twin, name, leaf)
    row_of = {tuple(index): row for row, index in enumerate(case.inputs.tolist()) if index[1] != NO_TIME}

    def lookup(n: int, t: int, x: int) -> Tensor | None:
        return x_leaf[row_of[n, t, x]] if (n, t, x) in row_of else None

    rows = [
        x.new_zeros(component.output_dim) if index[1] == NO_TIME else oracle(twin, lookup, tuple(index))
        for index in case.outputs.tolist()
    ]
    return torch.stack(rows), x_leaf, params
