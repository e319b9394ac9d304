"""Right-hand rooms import left-hand rooms only, and nothing of the project is imported inside a function."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import nnet3
from nnet3.components import COMPONENT_TYPES

ROOT = Path(nnet3.__file__).parent
ROOMS = [
    *("errors", "text", "options", "drawing", "index", "kaldi_io", "native", "ir", "schedule", "lowering", "families"),
    *("driver", "components", "hmm", "structure", "xconfig", "nnet", "edits", "compiler", "runtime", "decode"),
    *("examples", "train", "chain", "runs", "asr", "tuning", "export", "serve", "cn", "explore", "cli"),
]
RANK = {room: number for number, room in enumerate(ROOMS)}
FORBIDDEN = {
    "asr": {"train", "runs"},
    "export": {"examples", "train", "chain", "runs"},
    "serve": {"export", "train", "runs"},
    "cn": {"examples", "compiler", "chain", "asr", "serve"},
}


class Import(NamedTuple):
    """An import of a module of the project, and whether it is inside a function."""

    line: int
    module: str
    in_function: bool


@cache
def _imports(path: Path) -> list[Import]:
    found: list[Import] = []

    def visit(node: ast.AST, in_function: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(node.lineno, alias.name, in_function) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            module = node.module or ""
            names = [f"{module}.{alias.name}" if module == "nnet3" else module for alias in node.names]
            found.extend(Import(node.lineno, name, in_function) for name in names)
        elif not isinstance(node, ast.expr):
            in_function = in_function or isinstance(node, ast.FunctionDef)
            for child in ast.iter_child_nodes(node):
                visit(child, in_function)

    visit(ast.parse(path.read_text()), False)
    return [each for each in found if each.module.split(".")[0] == "nnet3"]


def _room(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def _files() -> list[Path]:
    files = [path for path in sorted(ROOT.rglob("*.py")) if path.parent != ROOT or path.stem == "errors"]
    assert len(files) > 50
    return files


def test_imports_point_left() -> None:
    wrong = []
    for path in _files():
        room = _room(path)
        for line, name, _ in _imports(path):
            target = name.split(".")[1] if "." in name else ""
            if target not in RANK or RANK[target] > RANK[room] or target in FORBIDDEN.get(room, ()):
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert not wrong


def test_every_room_is_known() -> None:
    assert {_room(path) for path in _files()} <= set(ROOMS)


def test_no_project_imports_inside_functions() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        wrong += [f"{path.relative_to(ROOT)}:{each.line}" for each in _imports(path) if each.in_function]
    assert not wrong


def test_the_form_and_the_executor_name_no_front_end() -> None:
    """These rooms see kernels through one protocol: no component type, no descriptor."""
    for room in ("ir", "lowering", "families", "driver", "runtime"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for _, name, _ in _imports(path):
                assert name.split(".")[1] not in ("components", "structure", "nnet", "edits", "compiler", "cn"), (
                    f"{path} imports {name}"
                )


def test_nobody_outside_components_names_a_type_of_component() -> None:
    """Others ask a component for what it promises."""
    types = {component.__name__ for component in COMPONENT_TYPES.values()}
    wrong = []
    for path in _files():
        text = path.read_text()
        if _room(path) == "components" or not types & set(re.findall(r"\w+Component\b", text)):
            continue
        names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        wrong += [f"{path.relative_to(ROOT)} names {name}" for name in sorted(names & types)]
    assert not wrong
