"""examples/first_steps.ipynb: every cell runs, and what a notebook would show of it can be shown."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.docs.doctest_page import DOCS

NOTEBOOK = DOCS.parent / "examples" / "first_steps.ipynb"


def _run(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell; returns the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, str(NOTEBOOK), "exec"), names)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), str(NOTEBOOK), "exec"), names)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    names: dict[str, Any] = {}
    shown: list[str] = []
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            value = _run("".join(cell["source"]), names)
            shown += [rich(value) for rich in _rich(value)]
    assert len(shown) == 5
    assert all(text.startswith("<") and "</" in text for text in shown)


def _rich(value: Any) -> list[Any]:
    kinds = ("_repr_html_", "_repr_svg_")
    return [
        getattr(type(value), kind)
        for kind in kinds
        if hasattr(type(value), kind) and "torch" not in type(value).__module__
    ]
