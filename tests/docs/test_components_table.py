"""docs/components.md is what `make coverage` writes now, and every cell of it is good."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from nnet3.components import COMPONENT_TYPES, Component
from tests.shared_data import GOLDEN, needs_shared


@pytest.fixture
def coverage() -> ModuleType:
    return importlib.import_module("tools.component_coverage")


@needs_shared
def test_the_table_is_up_to_date(coverage: ModuleType) -> None:
    text = coverage.page(GOLDEN)
    assert "| no" not in text
    assert coverage.PAGE.read_text() == text, "run `make coverage`"


def test_every_type_has_a_sample(coverage: ModuleType) -> None:
    assert set(coverage.SAMPLES) == set(COMPONENT_TYPES)


def test_a_broken_type_is_seen(coverage: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(component: Component, *arguments: object) -> None:
        raise ValueError

    monkeypatch.setattr(COMPONENT_TYPES["TanhComponent"], "write_body", broken)
    cells = coverage.try_type("TanhComponent").cells
    assert cells["forward"] == "yes"
    assert cells["text"] == cells["binary"] == "no: ValueError"
    assert coverage.try_type("UnknownComponent").cells == {"config": "no: KeyError"}
