"""BackpropTruncationComponent."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import components
from nnet3.errors import ComponentError
from nnet3.model.components.identity import BackpropTruncationComponent, BackpropTruncationIndexes
from tests.components.component_text import check_round_trip, from_text
from tests.components.contract import component_contract
from tests.components.index_harness import precomputed


def create(config: str) -> BackpropTruncationComponent:
    component = components.create("BackpropTruncationComponent", config)
    assert isinstance(component, BackpropTruncationComponent)
    return component


def indexes_of(component: BackpropTruncationComponent, n: list[int], t: list[int]) -> BackpropTruncationIndexes:
    table = np.stack([n, t, np.zeros(len(n))], 1).astype(np.int32)
    return precomputed(component, table, table)


def backward(
    component: BackpropTruncationComponent, y_deriv: torch.Tensor, indexes: BackpropTruncationIndexes
) -> torch.Tensor:
    x_deriv = torch.empty_like(y_deriv)
    component.backward(None, None, y_deriv, None, component, x_deriv, indexes)  # type: ignore[arg-type]
    return x_deriv


@pytest.mark.parametrize(("interval", "recurrence"), [(20, 1), (7, 3), (3, 5), (1, 1)])
def test_boundaries_differ_by_sequence(interval: int, recurrence: int) -> None:
    component = create(f"dim=1 zeroing-interval={interval} recurrence-interval={recurrence}")
    n, t = [i % 3 for i in range(90)], [i - 45 for i in range(90)]
    expected = [(t_i - n_i) // interval != (t_i - recurrence - n_i) // interval for n_i, t_i in zip(n, t, strict=True)]
    indexes = indexes_of(component, n, t)
    assert indexes.is_boundary.squeeze(1).tolist() == expected
    assert indexes.num_boundaries == sum(expected)


def test_clipping_and_zeroing() -> None:
    component = create("dim=2 scale=0.5 clipping-threshold=10 zeroing-threshold=4 zeroing-interval=5")
    indexes = indexes_of(component, [0, 0, 0, 0], [0, 1, 5, 10])  # boundaries: t = 0, 5, 10
    y_deriv = torch.tensor([[6.0, 8.0], [60.0, 80.0], [3.0, 4.0], [60.0, 80.0]])
    x_deriv = backward(component, y_deriv, indexes)
    torch.testing.assert_close(x_deriv, torch.tensor([[0.0, 0.0], [6.0, 8.0], [1.5, 2.0], [0.0, 0.0]]))
    assert (component.count, float(component.num_clipped)) == (4, 2)
    assert (component.count_zeroing_boundaries, float(component.num_zeroed)) == (3, 2)
    assert component.info() == (
        "BackpropTruncationComponent, dim=2, scale=0.5, count=4, recurrence-interval=1, clipping-threshold=10, "
        "clipped-proportion=0.5, zeroing-threshold=4, zeroing-interval=5, zeroed-proportion=0.666667, "
        "count-zeroing-boundaries=3"
    )
    check_round_trip(component)


def test_derivatives_may_be_clipped_in_place() -> None:
    component = create("dim=2 scale=0.5 clipping-threshold=10 zeroing-threshold=4 zeroing-interval=5")
    indexes = indexes_of(component, [0, 0], [0, 1])
    deriv = torch.tensor([[60.0, 80.0], [60.0, 80.0]])
    component.backward(None, None, deriv, None, None, deriv, indexes)  # type: ignore[arg-type]
    torch.testing.assert_close(deriv, torch.tensor([[0.0, 0.0], [6.0, 8.0]]))
    component.forward(deriv, deriv)
    torch.testing.assert_close(deriv, torch.tensor([[0.0, 0.0], [3.0, 4.0]]))


def test_thresholds_of_zero_mean_never() -> None:
    component = create("dim=1 clipping-threshold=0 zeroing-threshold=0 zeroing-interval=1")
    y_deriv = torch.tensor([[1e9], [-1e9]])
    assert torch.equal(backward(component, y_deriv, indexes_of(component, [0, 0], [0, 1])), y_deriv)
    assert float(component.num_zeroed) == float(component.num_clipped) == 0


def test_statistics_are_counted_even_if_no_derivative_is_wanted_and_are_linear() -> None:
    component = create("dim=1 clipping-threshold=1")
    indexes = indexes_of(component, [0, 0], [0, 1])
    component.backward(None, None, torch.full((2, 1), 5.0), None, component, None, indexes)  # type: ignore[arg-type]
    component.add_(2.0, component.copy())
    assert (component.count, float(component.num_clipped), component.count_zeroing_boundaries) == (6, 6, 3)
    component.zero_stats()
    assert (component.count, float(component.num_clipped), component.count_zeroing_boundaries) == (0, 0, 0)


def test_it_cannot_be_used_alone() -> None:
    with pytest.raises(ComponentError, match="run it inside a network"):
        create("dim=2").propagate(torch.zeros(1, 2))


FIELDS = (
    "<Dim> 2 <Scale> 1 <ClippingThreshold> 30 <ZeroingThreshold> 15 <ZeroingInterval> 20 <RecurrenceInterval> 1 "
    "<NumElementsClipped> 0 <NumElementsZeroed> 0 <NumElementsProcessed> 0 <NumZeroingBoundaries> 0"
)


def test_old_files_have_no_scale() -> None:
    text = f"<BackpropTruncationComponent> {FIELDS.replace('<Scale> 1 ', '')} </BackpropTruncationComponent> "
    assert "scale=1," in from_text(text).info()


TestBackpropTruncation = component_contract(
    "BackpropTruncationComponent",
    good=["dim=4 scale=0.8 clipping-threshold=1000 zeroing-threshold=1000"],
    rows=lambda component: (6, indexes_of(component, [0] * 6, list(range(6)))),  # type: ignore[arg-type]
    file=f"<BackpropTruncationComponent> {FIELDS} </BackpropTruncationComponent> ",
    bad_configs=[
        ("dim=2 scale=0", "'scale' must be > 0", "0"),
        ("dim=2 clipping-threshold=-1", "'clipping-threshold' must be >= 0", "-1"),
        ("dim=2 zeroing-threshold=-1", "'zeroing-threshold' must be >= 0", "-1"),
        ("dim=2 zeroing-interval=0", "'zeroing-interval' must be >= 1", "0"),
        ("dim=2 recurrence-interval=0", "'recurrence-interval' must be >= 1", "0"),
    ],
    bad_files=[
        ("<Scale> 1", "<Scale> 0", "<Scale> must be > 0, got 0"),
        ("<ZeroingInterval> 20", "<ZeroingInterval> 0", "<ZeroingInterval> must be >= 1, got 0"),
        ("<RecurrenceInterval> 1", "<RecurrenceInterval> -1", "<RecurrenceInterval> must be >= 1, got -1"),
        ("<NumElementsZeroed>", "<Zeroed>", "expected <NumElementsZeroed>, got '<Zeroed>'"),
    ],
)
