"""The tables of docs/onnx.md: all types are there, and what they say of a few is so."""

from __future__ import annotations

import pytest

from nnet3.components import COMPONENT_TYPES
from tools.onnx_page import HEADING, PAGE, type_row

TABLES = PAGE.read_text().partition(HEADING)[2]


@pytest.mark.parametrize("type_name", ["TdnnComponent", "StatisticsPoolingComponent", "PnormComponent"])
def test_rows_of_a_few_types(type_name: str) -> None:
    assert f"\n{type_row(type_name)}\n" in TABLES, "run `make onnx`"


def test_all_types_are_there_and_none_is_refused() -> None:
    rows = {line.split("|")[1].strip() for line in TABLES.splitlines() if line.startswith("| ")}
    assert rows >= {type_name.removesuffix("Component") for type_name in COMPONENT_TYPES}
    assert "| no" not in TABLES
