"""docs/components.md is what `make components` writes now, and every cell of it is good."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from nnet3.components import COMPONENT_TYPES, Component
from tests.shared_data import GOLDEN, needs_shared


@pytest.fixture
def components_page() -> ModuleType:
    return importlib.import_module("tools.components_page")


@needs_shared
def test_the_table_is_up_to_date(components_page: ModuleType) -> None:
    text = components_page.page(GOLDEN)
    assert "| no" not in text
    assert components_page.PAGE.read_text() == text, "run `make components`"


def test_every_type_has_a_sample(components_page: ModuleType) -> None:
    assert set(components_page.SAMPLES) == set(COMPONENT_TYPES)


def test_a_broken_type_is_seen(components_page: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(component: Component, *arguments: object) -> None:
        raise ValueError

    monkeypatch.setattr(COMPONENT_TYPES["TanhComponent"], "write_body", broken)
    cells = components_page.try_type("TanhComponent").cells
    assert cells["forward"] == "yes"
    assert cells["text"] == cells["binary"] == "no: ValueError"
    assert components_page.try_type("UnknownComponent").cells == {"config": "no: KeyError"}
