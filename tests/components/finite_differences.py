"""Compare a component's derivatives with central differences in float64.

The matrices given to the kernels are column slices of wider ones full of NaN, values that `properties` does not ask
for are withheld, and inputs must come back unchanged; so the same call also tests that part of the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nnet3.components import Component, Properties

STEP = 1e-5  # truncation is of order STEP**2, rounding of order 1e-16 / STEP: both near 1e-10 for values of order one
TOLERANCE = 1e-6
_DIRECTIONS = 4
_ELEMENTS = 40


def check_derivatives(
    component: Component,
    rows: int | tuple[int, int],
    indexes: Any = None,
    seed: int = 0,
    x: Tensor | None = None,
) -> None:
    """Assert that input and parameter derivatives agree with finite differences to 1e-6 (relative).

    `rows` is the number of rows, or (input rows, output rows) of a component that is not simple; `indexes` goes to the
    kernels as it is. `x` replaces the standard normal input. The component given is not changed.
    """
    component = component.copy().to(dtype=torch.float64)
    input_rows, output_rows = (rows, rows) if isinstance(rows, int) else rows
    rng = torch.Generator().manual_seed(seed)
    if x is None:
        x = torch.randn(input_rows, component.input_dim, generator=rng, dtype=torch.float64)
    y_deriv = torch.randn(output_rows, component.output_dim, generator=rng, dtype=torch.float64)

    def objective() -> float:
        return float((_forward(component, x, output_rows, indexes, seed)[0] * y_deriv).sum())

    x_deriv, _ = _backward(component, x, y_deriv, indexes, seed, update=False, want_input=True)
    assert x_deriv is not None
    _compare("input", x, x_deriv, objective, rng)

    _, gradient = _backward(component, x, y_deriv, indexes, seed, update=True, want_input=True)
    _, alone = _backward(component, x, y_deriv, indexes, seed, update=True, want_input=False)
    for name, tensor in component.parameters().items():
        derivative = gradient.parameters()[name]
        assert torch.equal(derivative, alone.parameters()[name]), f"{name}: the update depends on x_deriv being wanted"
        _compare(name, tensor, derivative, objective, rng)


def check_in_place(component: Component, rows: int, seed: int = 0) -> None:
    """Assert that the in-place kernels that `properties` declares give what the others give."""
    component = component.copy().to(dtype=torch.float64)
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, component.input_dim, generator=rng, dtype=torch.float64)
    y_deriv = torch.randn(rows, component.output_dim, generator=rng, dtype=torch.float64)
    y, memo = _forward(component, x, rows, None, seed)
    if component.properties & Properties.PROPAGATE_IN_PLACE:
        shared = x.clone()
        component.seed_random(seed)
        component.forward(shared, shared)
        torch.testing.assert_close(shared, y, rtol=1e-12, atol=1e-12)
    if component.properties & Properties.BACKPROP_IN_PLACE:
        separate, shared = torch.empty_like(x), y_deriv.clone()
        updates = [component.gradient_copy(), component.gradient_copy()]
        for update in updates:
            update.seed_random(seed)
        needed_x, needed_y = _needed(component, x, y)
        component.seed_random(seed)
        component.backward(needed_x, needed_y, y_deriv, memo, updates[0], separate)
        component.seed_random(seed)
        component.backward(needed_x, needed_y, shared, memo, updates[1], shared)
        torch.testing.assert_close(shared, separate, rtol=1e-12, atol=1e-12)
        for name, tensor in updates[0].parameters().items():
            torch.testing.assert_close(updates[1].parameters()[name], tensor, rtol=1e-12, atol=1e-12)


def strided(matrix: Tensor) -> Tensor:
    """The same values as a column slice of a wider matrix that is NaN elsewhere."""
    wide = matrix.new_full((matrix.shape[0], matrix.shape[1] + 3), torch.nan)
    wide[:, 1:-2] = matrix
    return wide[:, 1:-2]


def _needed(component: Component, x: Tensor, y: Tensor) -> tuple[Any, Any]:
    """x and y where backprop is promised them, None where it is not."""
    needed_x = x if component.properties & Properties.BACKPROP_NEEDS_INPUT else None
    needed_y = y if component.properties & Properties.BACKPROP_NEEDS_OUTPUT else None
    return needed_x, needed_y


def _forward(component: Component, x: Tensor, output_rows: int, indexes: Any, seed: int) -> tuple[Tensor, Any]:
    component.seed_random(seed)
    given = strided(x)
    y = strided(x.new_full((output_rows, component.output_dim), torch.nan))
    memo = component.forward(given, y, indexes)
    assert torch.equal(given, x), "forward changed its input"
    _check_margins(y)
    return y, memo


def _backward(
    component: Component, x: Tensor, y_deriv: Tensor, indexes: Any, seed: int, *, update: bool, want_input: bool
) -> tuple[Tensor | None, Component]:
    y, memo = _forward(component, x, y_deriv.shape[0], indexes, seed)
    gradient = component.gradient_copy()
    gradient.seed_random(seed)
    x_deriv = strided(torch.full_like(x, torch.nan)) if want_input else None
    needed_x, needed_y = _needed(component, strided(x), y)
    before, given = y.clone(), strided(y_deriv)
    component.backward(needed_x, needed_y, given, memo, gradient if update else None, x_deriv, indexes)
    assert needed_x is None or torch.equal(needed_x, x), "backward changed its input value"
    assert torch.equal(y, before), "backward changed its output value"
    assert torch.equal(given, y_deriv), "backward changed the output derivative"
    if x_deriv is not None:
        _check_margins(x_deriv)
    return x_deriv, gradient


def _check_margins(matrix: Tensor) -> None:
    """A kernel must write its own columns only."""
    wide = torch.as_strided(
        matrix, (matrix.shape[0], matrix.shape[1] + 3), (matrix.shape[1] + 3, 1), matrix.storage_offset() - 1
    )
    assert bool(wide[:, 0].isnan().all() and wide[:, -2:].isnan().all()), "a kernel wrote outside its columns"


def _compare(
    name: str, variable: Tensor, derivative: Tensor, objective: Callable[[], float], rng: torch.Generator
) -> None:
    """Derivatives along some random directions and of some single elements, each against a central difference."""
    directions = [torch.randn(variable.shape, generator=rng, dtype=torch.float64) for _ in range(_DIRECTIONS)]
    for element in torch.randperm(variable.numel(), generator=rng)[:_ELEMENTS].tolist():
        directions.append(torch.zeros(variable.shape, dtype=torch.float64))
        directions[-1].view(-1)[element] = 1.0
    start, numeric = variable.clone(), []
    for direction in directions:
        ends = []
        for sign in (1, -1):
            variable.copy_(start + sign * STEP * direction)
            ends.append(objective())
        numeric.append((ends[0] - ends[1]) / (2 * STEP))
    variable.copy_(start)
    expected = torch.tensor(numeric, dtype=torch.float64)
    actual = torch.stack([(derivative * direction).sum() for direction in directions])
    for part in (slice(0, _DIRECTIONS), slice(_DIRECTIONS, None)):  # directions are larger: compare each group alone
        error = float((actual[part] - expected[part]).norm())
        scale = float(expected[part].norm())
        assert error <= TOLERANCE * max(scale, 1e-3), (
            f"derivative of {name}: relative difference {error / max(scale, 1e-3):.2g} from finite differences"
        )
