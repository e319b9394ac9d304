"""Tests stand alone, in files that are called as what they test; there is one path to import from."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.distribution import LONG
from tests.effort import QUICK
from tests.wings import WINGS

TESTS = Path(__file__).parent
SOURCES = TESTS.parent / "src/nnet3"
_SMALL = 100  # lines of a file that needs no test of its own
_IMPORT = re.compile(r"^ *((?:from|import) +(?:tests\b|\.)(?:[^(\n]*\([^)]*\)|.*))", re.MULTILINE)


def _imports(path: Path) -> list[str]:
    """Returns the dotted names that a file imports of tests, `a.b.c` for `from a.b import c`."""
    names: list[str] = []
    for node in ast.walk(ast.parse("\n".join(_IMPORT.findall(path.read_text())))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names]
    return names


def _without_wing(path: Path) -> Path:
    """Returns the path of a file of the package without its wing, if the wing has rooms."""
    return path.relative_to(path.parts[0]) if WINGS.get(path.parts[0]) and len(path.parts) > 2 else path


def test_no_file_imports_a_test() -> None:
    modules = {path.stem for path in TESTS.rglob("test_*.py")}
    assert len(modules) > 200
    wrong = [
        f"{path.relative_to(TESTS)} imports {name}"
        for path in sorted(TESTS.rglob("*.py"))
        for name in _imports(path)
        if name.startswith((".", "tests.")) and modules & set(name.split("."))
    ]
    assert not wrong


def test_there_is_one_path_to_import_from(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.getini("pythonpath") == [TESTS.parent]


def test_files_that_begin_first_are_there() -> None:
    assert all(Path(TESTS.parent, name).is_file() for name in LONG)


def test_quick_files_are_there() -> None:
    """`tools/quick_tests.py` lists them for `make quick`."""
    assert len(QUICK) > 250
    assert [name for name in QUICK if not Path(TESTS.parent, name).is_file()] == []


def test_larger_files_have_a_test_of_their_name() -> None:
    """src/nnet3/WING/A/B.py has tests/A/test_B.py, or for a pass tests/A/text/B.txt.

    What files of lowering/ say by example is run by one test for all.
    """
    assert (TESTS / "lowering/test_examples.py").exists()
    missing = []
    for path in sorted(SOURCES.rglob("*.py")):
        place = _without_wing(path.relative_to(SOURCES))
        is_large = len(path.read_text().splitlines()) > _SMALL
        if is_large and path.stem != "__init__" and place.parts[0] != "lowering":
            mirror = TESTS / place.parent / f"test_{path.stem}.py"
            text = TESTS / place.parent / "text" / f"{path.stem}.txt"
            missing += [] if mirror.exists() or text.exists() else [str(mirror.relative_to(TESTS))]
    assert missing == []
