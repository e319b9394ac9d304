"""Right-hand rooms import left-hand rooms only, no two files each other, and no function a file of the project."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np

import nnet3
from nnet3.components import COMPONENT_TYPES
from nnet3.schedule import DirectedGraph, strongly_connected_components

ROOT = Path(nnet3.__file__).parent
ROOMS = [
    "stubs",
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


def _imported_modules(tree: ast.AST) -> list[tuple[ast.stmt, str]]:
    found: list[tuple[ast.stmt, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            module = node.module or ""
            found += [(node, f"{module}.{alias.name}" if module == "nnet3" else module) for alias in node.names]
    return [(node, name) for node, name in found if name.split(".")[0] == "nnet3"]


def _room(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def _files() -> list[Path]:
    files = [path for path in sorted(ROOT.rglob("*.py")) if path.parent != ROOT or path.stem in ("errors", "stubs")]
    assert len(files) > 50
    return files


def test_imports_point_left() -> None:
    wrong = []
    for path in _files():
        room = _room(path)
        for node, name in _imported_modules(ast.parse(path.read_text())):
            target = name.split(".")[1] if "." in name else ""
            if target not in RANK or RANK[target] > RANK[room] or target in FORBIDDEN.get(room, ()):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} imports {name}")
    assert not wrong


def test_every_room_is_known() -> None:
    assert {_room(path) for path in _files()} <= set(ROOMS)


def test_no_project_imports_inside_functions() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                wrong += [f"{path.relative_to(ROOT)}:{node.lineno}" for node, _ in _imported_modules(function)]
    assert not wrong


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("nnet3", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def test_no_two_files_import_each_other() -> None:
    """Not in a circle of several either, nor for type checkers alone."""
    paths = {_module(path): path for path in sorted(ROOT.rglob("*.py"))}
    names = list(paths)
    number = {name: i for i, name in enumerate(names)}
    edges: list[tuple[int, int]] = []
    for name, path in paths.items():
        for node, imported in _imported_modules(ast.parse(path.read_text())):
            inside = [f"{imported}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            found = {each if each in number else imported for each in inside} or {imported}
            edges += [(number[name], number[each]) for each in found if each in number and each != name]
    sources, users = np.array(edges).T
    circle_of, _ = strongly_connected_components(DirectedGraph.from_edges(len(names), sources, users))
    circles = [[names[i] for i in np.flatnonzero(circle_of == c)] for c in np.unique(circle_of)]
    assert len(edges) > 3000
    assert [circle for circle in circles if len(circle) > 1] == []


def test_the_form_and_the_executor_name_no_front_end() -> None:
    """These rooms see kernels through one protocol: no component type, no descriptor."""
    for room in ("ir", "lowering", "families", "driver", "runtime"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for _, name in _imported_modules(ast.parse(path.read_text())):
                assert name.split(".")[1] not in ("components", "structure", "nnet", "edits", "compiler", "cn"), (
                    f"{path} imports {name}"
                )


def test_nobody_outside_components_names_a_type_of_component() -> None:
    """Others ask a component for what it promises."""
    types = {component.__name__ for component in COMPONENT_TYPES.values()}
    wrong = []
    for path in _files():
        if _room(path) == "components":
            continue
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        wrong += [f"{path.relative_to(ROOT)} names {name}" for name in sorted(names & types)]
    assert not wrong
