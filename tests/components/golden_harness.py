"""Run one case folder of the golden component data and compare everything in it (its README says what is where)."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nnet3 import components
from nnet3.components import Component, Properties

OUTPUT_TOLERANCE = 1e-5
UPDATE_TOLERANCE = 1e-3
UPDATE_COSINE = 0.99999
ROUNDING = 6e-8
# "Adds" and "Contiguous" of Kaldi have no counterpart; the memory hints may be better here than there.
COMPARED_PROPERTIES = (
    Properties.SIMPLE | Properties.UPDATABLE | Properties.REORDERS_INDEXES | Properties.STORES_STATS | Properties.RANDOM
)

_NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.?\d*(?:e[+-]?\d+)?|nan|inf)(?![\w.])")


@dataclass(frozen=True)
class GoldenCase:
    path: Path
    type_name: str
    properties: int
    input: Tensor
    output: Tensor
    output_deriv: Tensor
    input_deriv: Tensor

    def component(self) -> Component:
        return components.read(self.path / "component.bin")

    def optional(self, name: str) -> Component | None:
        path = self.path / name
        return components.read(path) if path.exists() else None


def type_of_case(path: Path) -> str:
    return json.loads((path / "meta.json").read_text())["type"]


def load_case(path: Path) -> GoldenCase:
    meta = json.loads((path / "meta.json").read_text())
    with np.load(path / "arrays.npz") as arrays:
        tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    return GoldenCase(path, meta["type"], meta["properties"], **tensors)


# ---- comparisons ----


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """Frobenius norm of the difference over that of `expected`; NaN counts as infinitely far."""
    actual, expected = actual.double(), expected.double()
    assert actual.shape == expected.shape, f"shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    distance, size = float((actual - expected).norm()), float(expected.norm())
    if math.isnan(distance):
        return math.inf
    return distance / size if size > 0 else distance


def assert_close(actual: Tensor, expected: Tensor, what: str, tolerance: float = OUTPUT_TOLERANCE) -> None:
    error = relative_error(actual, expected)
    assert error <= tolerance, f"{what}: relative error {error:.2e} > {tolerance:.0e}"


def assert_same_change(before: Tensor, actual: Tensor, expected: Tensor, what: str) -> None:
    """Compare how far two updates moved `before`, unless rounding of `before` drowns the difference."""
    change, wanted = (actual - before).double(), (expected - before).double()
    distance = float((change - wanted).norm())
    if distance <= 8 * ROUNDING * float(before.norm()):
        return
    assert_close(change, wanted, f"{what}: change", UPDATE_TOLERANCE)
    cosine = float((change * wanted).sum() / (change.norm() * wanted.norm()))
    assert cosine > UPDATE_COSINE, f"{what}: cosine {cosine:.7f}"


def assert_same_words(actual: str, expected: str, what: str, digits: float = 1.01) -> None:
    """Equal text except that numbers may differ by `digits` units of the last digit printed in `expected`."""
    assert _NUMBER.sub("#", actual).split() == _NUMBER.sub("#", expected).split(), f"{what}:\n{actual}\n{expected}"
    for mine, theirs in zip(_NUMBER.findall(actual), _NUMBER.findall(expected), strict=True):
        assert _same_number(mine, theirs, digits), f"{what}: {mine} is not {theirs}\n{actual}\n{expected}"


def _same_number(actual: str, expected: str, digits: float) -> bool:
    if "nan" in expected or "nan" in actual:  # of a standard deviation that is zero but for rounding
        return all("nan" in value or abs(float(value)) < 1e-3 for value in (actual, expected))
    mantissa, _, exponent = expected.partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - decimals)
    if "." not in mantissa and not exponent and actual == expected:
        return True
    return abs(float(actual) - float(expected)) <= digits * unit


def assert_same_statistics(actual: Component, expected: Component, what: str) -> None:
    for name in expected.statistic_names:
        mine = torch.as_tensor(getattr(actual, name), dtype=torch.float64)
        theirs = torch.as_tensor(getattr(expected, name), dtype=torch.float64)
        assert_close(mine, theirs, f"{what}: {name}", 3e-6)


# ---- the parts of a case ----


def check_golden(path: Path, scratch: Path) -> None:
    """Everything that a case folder holds; `scratch` is an empty folder to write to."""
    case = load_case(path)
    component = case.component()
    properties = component.properties & COMPARED_PROPERTIES
    assert properties == case.properties & COMPARED_PROPERTIES, f"properties {properties!r}"
    check_files(case, scratch)
    assert_same_words(component.info(), (path / "info.txt").read_text().strip(), "info")
    check_arithmetic(case)
    check_strided(case)
    check_in_place(case)
    check_gradient(case)
    check_update(case)
    check_statistics(case)


def check_files(case: GoldenCase, scratch: Path) -> None:
    """Both forms read; binary is re-written byte for byte, text value for value."""
    component = case.component()
    component.write(str(scratch / "binary"), binary=True)
    assert (scratch / "binary").read_bytes() == (case.path / "component.bin").read_bytes(), "binary form differs"
    from_text = components.read(case.path / "component.txt")
    for source, name in ((component, "from_binary"), (from_text, "from_text")):
        source.write(str(scratch / name), binary=False)
        written, expected = (scratch / name).read_text(), (case.path / "component.txt").read_text()
        assert_same_words(written, expected, name)
        assert len(written.splitlines()) == len(expected.splitlines()), f"{name}: number of lines"


def run_forward(component: Component, x: Tensor) -> tuple[Tensor, object]:
    """Forward into a buffer of NaNs: whatever is not overwritten shows."""
    y = x.new_full((x.shape[0], component.output_dim), math.nan)
    with torch.no_grad():
        memo = component.forward(x, y)
    return y, memo


def run_backward(component: Component, case: GoldenCase, to_update: Component | None = None) -> Tensor:
    """Forward and backward, with x and y only if the component asks for them."""
    y, memo = run_forward(component, case.input)
    x_deriv = torch.full_like(case.input, math.nan)
    needs_input = component.properties & Properties.BACKPROP_NEEDS_INPUT
    needs_output = component.properties & Properties.BACKPROP_NEEDS_OUTPUT
    x, y = (case.input if needs_input else None), (y if needs_output else None)  # type: ignore[assignment]
    with torch.no_grad():
        component.backward(x, y, case.output_deriv, memo, to_update, x_deriv)  # type: ignore[arg-type]
    return x_deriv


def check_arithmetic(case: GoldenCase) -> None:
    component = case.component()
    before = [tensor.clone() for tensor in (case.input, case.output_deriv)]
    y, _ = run_forward(component, case.input)
    assert_close(y, case.output, "output")
    assert_close(run_backward(case.component(), case), case.input_deriv, "input derivative")
    assert torch.equal(before[0], case.input), "the input was modified"
    assert torch.equal(before[1], case.output_deriv), "the output derivative was modified"


def _as_columns_of_wider(tensor: Tensor) -> Tensor:
    wide = tensor.new_full((tensor.shape[0], tensor.shape[1] + 3), math.nan)
    view = wide[:, 1 : 1 + tensor.shape[1]]
    view.copy_(tensor)
    return view


def check_strided(case: GoldenCase) -> None:
    """All four matrices may be columns of wider ones; the columns beside them stay untouched."""
    component = case.component()
    x, y_deriv = _as_columns_of_wider(case.input), _as_columns_of_wider(case.output_deriv)
    y, x_deriv = _as_columns_of_wider(torch.zeros_like(case.output)), _as_columns_of_wider(torch.zeros_like(case.input))
    with torch.no_grad():
        memo = component.forward(x, y)
        component.backward(x, y, y_deriv, memo, None, x_deriv)
    assert_close(y, case.output, "output, strided")
    assert_close(x_deriv, case.input_deriv, "input derivative, strided")
    for name, view in (("x", x), ("y", y), ("y_deriv", y_deriv), ("x_deriv", x_deriv)):
        wide = view._base
        assert wide is not None
        assert int(wide[:, [0, -2, -1]].isnan().sum()) == 3 * view.shape[0], f"wrote beside {name}"


def check_in_place(case: GoldenCase) -> None:
    """What PROPAGATE_IN_PLACE and BACKPROP_IN_PLACE promise."""
    component = case.component()
    if component.properties & Properties.PROPAGATE_IN_PLACE:
        both = case.input.clone()
        with torch.no_grad():
            component.forward(both, both)
        assert_close(both, case.output, "output, in place")
    if component.properties & Properties.BACKPROP_IN_PLACE:
        component = case.component()
        y, memo = run_forward(component, case.input)
        both = case.output_deriv.clone()
        with torch.no_grad():
            component.backward(case.input, y, both, memo, None, both)
        assert_close(both, case.input_deriv, "input derivative, in place")


def _updated(case: GoldenCase, start: Component, expected: Component) -> Component:
    """`start` after one backprop that updates it, with draws that store statistics if and only if Kaldi's did."""
    for seed in range(16):
        component, result = case.component(), start.copy()
        component.seed_random(seed)
        run_backward(component, case, result)
        if getattr(result, "count", None) == getattr(expected, "count", None):
            break
    return result


def check_gradient(case: GoldenCase) -> None:
    """A zeroed gradient copy after one backprop."""
    expected = case.optional("gradient.txt")
    if expected is None:
        return
    gradient = _updated(case, case.component().gradient_copy(), expected)
    theirs = expected.parameters()
    assert theirs, "no parameters"
    for name, tensor in gradient.parameters().items():
        assert_close(tensor, theirs[name], f"gradient of {name}")
    assert_same_statistics(gradient, expected, "gradient copy")


def check_update(case: GoldenCase) -> None:
    """A copy with underlying learning rate 0.1 after one backprop that updates it."""
    expected = case.optional("updated.txt")
    if expected is None:
        return
    updated = case.component()
    updated.set_learning_rate(0.1)
    updated = _updated(case, updated, expected)
    before, theirs = case.component().parameters(), expected.parameters()
    for name, tensor in updated.parameters().items():
        assert_same_change(before[name], tensor, theirs[name], name)
    assert_same_statistics(updated, expected, "updated")


def check_statistics(case: GoldenCase) -> None:
    """The component after storing forward statistics once."""
    expected = case.optional("component_stats.txt")
    if expected is None:
        return
    component = case.component()
    y, memo = run_forward(component, case.input)
    component.store_stats(case.input, y, memo)
    assert_same_statistics(component, expected, "statistics")
