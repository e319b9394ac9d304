"""Wings and rooms import what stands before them only, no two files each other, and no function a file of the project.

A folder of the package is a wing; a wing of rooms is cut into folders again. A file beside the wings is public: it
hands on names, and nothing in a wing imports it, but what every file may import.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import nnet3
from nnet3.components import COMPONENT_TYPES
from nnet3.engine.schedule import DirectedGraph, strongly_connected_components
from tests.wings import ROOMS, WINGS, room_of

ROOT = Path(nnet3.__file__).parent
RANK = {room: number for number, room in enumerate(ROOMS)}
FORBIDDEN = {
    "asr": {"train", "runs"},
    "export": {"examples", "train", "chain", "runs"},
    "serve": {"export", "train", "runs"},
    "cn": {"examples", "requests", "chain", "asr", "serve"},
}


class Import(NamedTuple):
    """An import of a module of the project, or of names in it, and whether it is inside a function."""

    line: int
    module: str
    names: tuple[str, ...]
    in_function: bool


@cache
def _imports(path: Path) -> list[Import]:
    found: list[Import] = []

    def visit(node: ast.AST, in_function: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(node.lineno, alias.name, (), in_function) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            names = tuple([alias.name for alias in node.names])
            if node.module == "nnet3":
                found.extend(Import(node.lineno, f"nnet3.{name}", (), in_function) for name in names)
            else:
                found.append(Import(node.lineno, node.module or "", names, in_function))
        elif not isinstance(node, ast.expr):
            in_function = in_function or isinstance(node, ast.FunctionDef)
            for child in ast.iter_child_nodes(node):
                visit(child, in_function)

    visit(ast.parse(path.read_text()), False)
    return [each for each in found if each.module.split(".")[0] == "nnet3"]


def _files() -> dict[Path, str]:
    """The files in wings, and those that all may import, with their rooms."""
    rooms = {path: room_of(path.relative_to(ROOT).with_suffix("").parts) for path in sorted(ROOT.rglob("*.py"))}
    files = {path: room for path, room in rooms.items() if room not in ("", "__init__")}
    assert len(files) > 50
    return files


def test_imports_point_left() -> None:
    wrong = []
    for path, room in _files().items():
        for line, name, names, _ in _imports(path):
            parts = name.split(".")[1:] or [""]
            targets = [room_of([*parts, each]) for each in names] if names and len(parts) == 1 else [room_of(parts)]
            for target in targets:
                if target not in RANK or RANK[target] > RANK[room] or target in FORBIDDEN.get(room, ()):
                    wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert not wrong


def test_every_folder_is_a_wing_or_aroom_of() -> None:
    folders = {wing: tuple(sorted(WINGS[wing])) for wing in WINGS}
    found = {
        wing.name: tuple(sorted(room.name for room in wing.iterdir() if (room / "__init__.py").exists()))
        for wing in ROOT.iterdir()
        if (wing / "__init__.py").exists()
    }
    assert found.keys() == folders.keys()
    assert {wing: rooms for wing, rooms in found.items() if WINGS[wing]} == {w: r for w, r in folders.items() if r}


def test_no_project_imports_inside_functions() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        wrong += [f"{path.relative_to(ROOT)}:{each.line}" for each in _imports(path) if each.in_function]
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
        for _, imported, inside, _ in _imports(path):
            found = {f"{imported}.{each}" if f"{imported}.{each}" in number else imported for each in inside} or {
                imported
            }
            edges += [(number[name], number[each]) for each in found if each in number and each != name]
    sources, users = np.array(edges).T
    circle_of, _ = strongly_connected_components(DirectedGraph.from_edges(len(names), sources, users))
    circles = [[names[i] for i in np.flatnonzero(circle_of == c)] for c in np.unique(circle_of)]
    assert len(edges) > 3000
    assert [circle for circle in circles if len(circle) > 1] == []


def test_the_form_and_the_executor_name_no_front_end() -> None:
    """These rooms see kernels through one protocol: no component type, no descriptor. So does the core of export."""
    exporter = [path for path in (ROOT / "export").glob("*.py") if path.stem != "__init__"]
    assert len(exporter) > 10
    for path in [*exporter, *sorted((ROOT / "engine").rglob("*.py"))]:
        for _, name, _, _ in _imports(path):
            assert name.split(".")[1] not in ("model", "inference", "cn"), f"{path} imports {name}"
            assert not name.startswith("nnet3.export.nnet"), f"{path} imports {name}"


def test_nobody_outside_components_names_a_type_of_component() -> None:
    """Others ask a component for what it promises."""
    types = {component.__name__ for component in COMPONENT_TYPES.values()}
    wrong = []
    for path, room in _files().items():
        text = path.read_text()
        if room == "components" or not types & set(re.findall(r"\w+Component\b", text)):
            continue
        names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        wrong += [f"{path.relative_to(ROOT)} names {name}" for name in sorted(names & types)]
    assert not wrong
