"""What types declare to proofs of the rows and values that they look at, against numbers in float64: all types.

`test_proof_promises` has what simple types declare of linearity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3 import components
from nnet3.base.index import NO_TIME, find_rows
from nnet3.components import Component
from nnet3.engine.ir.kernel import KernelInfo
from nnet3.model.components.kernel_info import kernel_info
from tests.components.index_harness import index_case, precomputed, table
from tools.component_samples import SAMPLES

OUTPUTS, AVAILABLE = table(range(4), ns=range(2), xs=range(2)), table(range(-4, 9), ns=range(2), xs=range(-1, 3))
_EPSILON = 1e-12


@dataclass(frozen=True)
class Case:
    """A component, the indexes of the rows of its input and output, and what it has precomputed of them."""

    component: Component
    inputs: np.ndarray
    outputs: np.ndarray
    plan: Any

    @property
    def info(self) -> KernelInfo:
        return kernel_info("k", self.component, 1 if self.component.input_dim else 0)

    def x(self, seed: int) -> Tensor:
        """Positive numbers, since some columns are counts."""
        return numbers(len(self.inputs), self.component.input_dim, seed).abs() + 0.5

    def dy(self, seed: int) -> Tensor:
        dy = numbers(len(self.outputs), self.component.output_dim, seed)
        dy[torch.from_numpy(self.outputs[:, 1] == NO_TIME)] = 0
        return dy

    def forward(self, x: Tensor, *, seed: int = 3) -> tuple[Tensor, Any]:
        self.component.seed_random(seed)
        y = x.new_empty(len(self.outputs), self.component.output_dim)
        return y, self.component.forward(x, y, self.plan)

    def backward(self, x: Tensor, y: Tensor, dy: Tensor, memo: Any, updated: Component | None = None) -> Tensor:
        self.component.seed_random(4)
        dx = x.new_zeros(len(self.inputs), self.component.input_dim)
        self.component.backward(x, y, dy.clone(), memo, updated, dx, self.plan)
        return dx

    def derivative(self, x: Tensor, dy: Tensor) -> Tensor:
        y, memo = self.forward(x)
        return self.backward(x, y, dy, memo)

    @property
    def looks_at(self) -> np.ndarray:
        """Which input row each output row looks at, (outputs, inputs)."""
        found = np.zeros((len(self.outputs), len(self.inputs)), bool)
        wanted = self.component.wanted_inputs(self.outputs)
        rows = find_rows(self.inputs, wanted.reshape(-1, 3)).reshape(len(wanted), -1)
        for slot in range(rows.shape[1]):
            real = (rows[:, slot] >= 0) & (self.outputs[:, 1] != NO_TIME)
            found[np.flatnonzero(real), rows[real, slot]] = True
        return found


def numbers(rows: int, dim: int, seed: int) -> Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def case(name: str) -> Case:
    plain = " self-repair-scale=0" if "Lstm" in name or "Gru" in name else ""  # it is no derivative
    made = components.create(name, SAMPLES[name] + plain, seed=1).to(dtype=torch.float64)
    if made.identity_indexes:
        plan = precomputed(made, OUTPUTS, OUTPUTS) if made.needs_indexes else None
        return Case(made, OUTPUTS, OUTPUTS, plan)
    found = index_case(made, OUTPUTS, AVAILABLE)
    return Case(made, found.inputs, found.outputs, found.plan)


WITH_INPUT = [name for name, config in SAMPLES.items() if components.create(name, config).wanted_inputs(OUTPUTS).size]
LOOKING = [name for name in WITH_INPUT if case(name).info.needs_indexes]
READING = [name for name in WITH_INPUT if name != "BatchNormComponent"]  # whose rows depend on all rows
every_type = pytest.mark.parametrize("name", WITH_INPUT)


def changed_rows(one: Tensor, other: Tensor) -> set[int]:
    return set(torch.nonzero((one - other).abs().amax(1) > _EPSILON).flatten().tolist())


def with_row(matrix: Tensor, other: Tensor, row: int) -> Tensor:
    changed = matrix.clone()
    changed[row] = other[row]
    return changed


def test_types_that_look_at_indexes_are_here() -> None:
    assert {"TdnnComponent", "DistributeComponent", "SpecAugmentTimeMaskComponent"} <= set(LOOKING)
    assert len(LOOKING) > 8


@pytest.mark.parametrize("name", LOOKING)
def test_outputs_depend_on_the_rows_alone_at_which_they_look(name: str) -> None:
    each = case(name)
    x, other, looks_at = each.x(1), each.x(2), each.looks_at
    real = each.outputs[:, 1] != NO_TIME
    y, seen = each.forward(x)[0], 0
    for row in range(len(x)):
        changed = changed_rows(y[real], each.forward(with_row(x, other, row))[0][real])
        assert changed <= set(np.flatnonzero(looks_at[real, row]).tolist())
        seen += len(changed)
    assert seen


@pytest.mark.parametrize("name", LOOKING)
def test_derivatives_go_to_the_rows_alone_at_which_outputs_look(name: str) -> None:
    """And depend on no other values than those at which the same outputs look."""
    each = case(name)
    x, other, dy, other_dy, looks_at = each.x(1), each.x(2), each.dy(5), each.dy(6), each.looks_at
    real, dx = each.inputs[:, 1] != NO_TIME, each.derivative(x, dy)
    for row in range(len(dy)):
        changed = changed_rows(dx[real], each.derivative(x, with_row(dy, other_dy, row))[real])
        assert changed <= set(np.flatnonzero(looks_at[row, real]).tolist())
    together = looks_at.T @ looks_at
    for row in range(len(x)):
        changed = changed_rows(dx[real], each.derivative(with_row(x, other, row), dy)[real])
        assert changed <= set(np.flatnonzero(together[row, real]).tolist())


def state(component: Component) -> dict[str, Tensor]:
    """Parameters, and what was counted."""
    counted = {each: torch.as_tensor(getattr(component, each)) for each in component.statistic_names}
    found = {**component.parameters(), **counted}
    for prefix, leaf in component.leaves():
        found |= {f"{prefix}{each}": torch.as_tensor(getattr(leaf, each)) for each in leaf.statistic_names}
    return {key: value.clone() for key, value in found.items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=1e-9, atol=1e-9, equal_nan=True)


@every_type
def test_backward_passes_read_no_more_values_than_declared(name: str) -> None:
    each = case(name)
    x, dy, info = each.x(1), each.dy(5), each.info
    y, memo = each.forward(x)
    seen_x = x if info.inputs[0].backprop_needs_value else torch.full_like(x, torch.nan)
    seen_y = y if info.backprop_needs_output else torch.full_like(y, torch.nan)
    if info.backprop_needs_sign_only:
        seen_y = torch.where(y > 0, numbers(len(y), y.shape[1], 7).abs() + 0.1, -numbers(len(y), y.shape[1], 8).abs())
    learned = [each.component.gradient_copy() for _ in range(2)]
    expected = each.backward(x, y, dy, memo, learned[0])
    found = each.backward(seen_x, seen_y, dy, memo if info.uses_memo else None, learned[1])
    real = each.inputs[:, 1] != NO_TIME
    assert torch.equal(found[real], expected[real])
    same(*map(state, learned))


@pytest.mark.parametrize("name", [name for name in WITH_INPUT if case(name).info.backprop_needs_sign_only])
def test_types_that_look_at_signs_look_at_them(name: str) -> None:
    each = case(name)
    x, dy = each.x(1), each.dy(5)
    y, memo = each.forward(x)
    assert each.info.backprop_needs_output
    assert changed_rows(each.backward(x, y, dy, memo), each.backward(x, -y, dy, memo))


@pytest.mark.parametrize("name", [name for name in WITH_INPUT if case(name).info.uses_memo])
def test_memos_keep_values_or_draws(name: str) -> None:
    """A memo of other values, or of other draws, makes other derivatives; of one row, for that row alone."""
    each = case(name)
    x, other, dy = each.x(1), each.x(2), each.dy(5)
    y, memo = each.forward(x)
    expected = each.backward(x, y, dy, memo)
    changed = changed_rows(expected, each.backward(x, y, dy, each.forward(other, seed=9)[1]))
    assert changed
    if each.info.rows_apart and not each.info.is_random:
        one_row = each.forward(with_row(x, other, 2))[1]
        assert changed_rows(expected, each.backward(x, y, dy, one_row)) <= {2}


@pytest.mark.parametrize("name", [name for name in WITH_INPUT if case(name).info.is_random])
def test_memos_of_random_types_keep_the_draws(name: str) -> None:
    each = case(name)
    x, dy = each.x(1), each.dy(5)
    (y, memo), (_, again), (_, other) = each.forward(x), each.forward(x), each.forward(x, seed=9)
    if not each.info.uses_memo:  # then the output tells what was drawn
        assert each.info.backprop_needs_output or each.info.inputs[0].backprop_needs_value
        return
    assert torch.equal(each.backward(x, y, dy, memo), each.backward(x, y, dy, again))
    assert changed_rows(each.backward(x, y, dy, memo), each.backward(x, y, dy, other))


# ---- what is learned, stored and counted ----


def parts_of(each: Case, *parts: list[int]) -> list[Case]:
    """The same component on some of its rows each, which are their own inputs."""
    tables = [OUTPUTS[rows] for rows in parts]
    plans = [precomputed(each.component, rows, rows) if each.component.needs_indexes else None for rows in tables]
    return [Case(each.component, rows, rows, plan) for rows, plan in zip(tables, plans, strict=True)]


ROWS = list(range(len(OUTPUTS)))
HALVES = ROWS[:7], ROWS[7:]
ROW_BY_ROW = [name for name in READING if case(name).info.row_by_row and not case(name).info.is_random]


def stored(each: Case, *parts: list[int]) -> dict[str, Tensor]:
    kept = each.component.gradient_copy()
    for part, rows in zip(parts_of(each, *parts), parts, strict=True):
        x = each.x(1)[rows]
        kept.store_stats(x, *part.forward(x))
    return state(kept)


@pytest.mark.parametrize("name", [name for name in ROW_BY_ROW if case(name).info.stores_stats])
def test_statistics_are_of_rows_in_any_order(name: str) -> None:
    """Those of halves need not add up: some types look at every second call."""
    each = case(name)
    whole = stored(each, ROWS)
    same(whole, stored(each, ROWS[::-1]))
    differs = any(not torch.equal(value, whole[key]) for key, value in stored(each, HALVES[0]).items())
    assert differs or name == "LogSoftmaxComponent"  # which has statistics in Kaldi, and never stores any


def learned(each: Case, updated: Component, *parts: list[int]) -> dict[str, Tensor]:
    updated.seed_random(5)
    for part, rows in zip(parts_of(each, *parts), parts, strict=True):
        x = each.x(1)[rows]
        y, memo = part.forward(x)
        part.backward(x, y, each.dy(5)[rows], memo, updated)
    return state(updated)


@pytest.mark.parametrize("name", [name for name in ROW_BY_ROW if case(name).info.learns])
def test_plain_gradients_of_halves_add_up_and_counts_are_of_rows_in_any_order(name: str) -> None:
    each = case(name)
    whole, halves, turned = (
        learned(each, each.component.gradient_copy(), *parts) for parts in ([ROWS], [*HALVES], [ROWS[::-1]])
    )
    same(whole, turned)
    parameters = each.component.parameters()
    same({key: whole[key] for key in parameters}, {key: halves[key] for key in parameters})
    before = state(each.component.gradient_copy())
    assert any(not torch.equal(value, before[key]) for key, value in whole.items())


#: Whose updates hang on which rows they learn of together.
TOGETHER = {name for name in ROW_BY_ROW if case(name).component.natural_gradients}


@pytest.mark.parametrize("name", sorted(TOGETHER))
def test_natural_gradients_learn_of_rows_together_in_any_order(name: str) -> None:
    """So passes may not learn of halves, and may reorder rows."""
    each = case(name)
    assert each.info.updatable
    whole, halves, turned = (
        learned(each, each.component.copy(), *parts) for parts in ([ROWS], [*HALVES], [ROWS[::-1]])
    )
    same(whole, turned)
    assert any((whole[key] - halves[key]).abs().max() > 1e-9 for key in each.component.parameters())
