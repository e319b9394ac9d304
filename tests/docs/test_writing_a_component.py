"""docs/writing_a_component.md does what it says, and its component passes the tests that the page recommends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from nnet3.components import COMPONENT_TYPES, Component, create
from tests.components.component_text import check_round_trip
from tests.components.finite_differences import check_derivatives, check_in_place
from tests.components.index_harness import Index, Lookup, check_against_oracle, table
from tests.docs.doctest_page import run_page


@pytest.fixture
def own_types() -> Iterator[None]:
    """Types that a test registers are forgotten after it."""
    known = dict(COMPONENT_TYPES)
    yield
    COMPONENT_TYPES.clear()
    COMPONENT_TYPES.update(known)


@pytest.mark.usefixtures("own_types")
def test_the_page_does_what_it_says_and_its_component_is_right() -> None:
    assert run_page("writing_a_component.md") > 30
    component = create("PReluComponent", "dim=6 slope=-0.3")
    check_derivatives(component, rows=7)
    check_in_place(component, rows=7)
    capped = create("CappedComponent", "dim=6 block-dim=3 cap=1.5 strict=true")
    check_derivatives(capped, rows=7)
    check_round_trip(capped)
    mean = create("MeanOfNeighboursComponent", "dim=3")
    check_against_oracle(mean, table(range(4), (0, 1)), table(range(-1, 4), (0, 1)), _mean_of_neighbours)


def _mean_of_neighbours(component: Component, lookup: Lookup, index: Index) -> Tensor:
    n, t, x = index
    rows = (lookup(n, t + offset, x) for offset in (-1, 0, 1))
    return torch.stack([row for row in rows if row is not None]).mean(0)


def test_the_page_leaves_nothing_behind() -> None:
    assert "PReluComponent" not in COMPONENT_TYPES
    assert "CappedComponent" not in COMPONENT_TYPES
    assert "MeanOfNeighboursComponent" not in COMPONENT_TYPES
