"""Names that a stub lists are imported when they are first asked for."""

from __future__ import annotations

import ast
import gc
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

import nnet3
from nnet3.stubs import attach_stub, without_collection

ROOT = Path(nnet3.__file__).parent
STUB = """\
# A comment.
from . import small as small
from .deep.inner import value as value, other as others
from outside_of_it import word as word, part as part
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package with a stub, modules inside it, and a package beside it."""
    files = {
        "waiting/__init__.py": "from nnet3.stubs import attach_stub\n"
        "__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)\n",
        "waiting/__init__.pyi": STUB,
        "waiting/small.py": "size = 1\n",
        "waiting/deep/__init__.py": "",
        "waiting/deep/inner.py": "value = 2\nother = 3\n",
        "outside_of_it/__init__.py": "word = 'w'\n",
        "outside_of_it/part.py": "number = 4\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    return importlib.import_module("waiting")


def _loaded() -> set[str]:
    return {name for name in sys.modules if name.startswith(("waiting.", "outside_of_it"))}


def test_each_name_is_imported_when_it_is_asked_for(package: ModuleType) -> None:
    assert dir(package) == package.__all__ == ["others", "part", "small", "value", "word"]
    assert _loaded() == set()
    assert package.small.size == 1
    assert _loaded() == {"waiting.small"}
    assert (package.value, package.others) == (2, 3)
    assert _loaded() == {"waiting.small", "waiting.deep", "waiting.deep.inner"}
    assert package.word == "w"
    assert package.part.number == 4
    assert vars(package)["part"] is sys.modules["outside_of_it.part"]


def test_names_that_the_stub_lacks_are_no_attributes(package: ModuleType) -> None:
    for name in ("smal", "deep", "inner", "other"):
        with pytest.raises(AttributeError, match=f"module 'waiting' has no attribute '{name}'"):
            getattr(package, name)
    assert importlib.import_module("waiting.deep") is package.deep  # as with each module of a package


def test_another_function_may_import(package: ModuleType) -> None:
    asked: list[str] = []

    def load(name: str) -> ModuleType:
        asked.append(name)
        return importlib.import_module(name)

    get, _, _ = attach_stub("waiting", str(package.__file__), load)
    assert get("value") == 2
    assert get("part").number == 4
    assert asked == ["waiting.deep.inner", "outside_of_it", "outside_of_it.part"]


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_not_collected_meanwhile(package: ModuleType, collects: bool) -> None:
    folder = Path(str(package.__file__)).parent
    (folder / "small.py").write_text("import gc\nsize = gc.isenabled()\n")
    (gc.enable if collects else gc.disable)()
    try:
        assert package.small.size is False
        with pytest.raises(ModuleNotFoundError):
            without_collection("waiting.none")
        assert gc.isenabled() is collects
    finally:
        gc.enable()


def test_a_module_without_a_stub_fails_at_once(package: ModuleType) -> None:
    with pytest.raises(FileNotFoundError):
        attach_stub("waiting.small", str(Path(str(package.__file__)).with_name("small.py")))


@pytest.mark.parametrize("stub", sorted(ROOT.rglob("*.pyi")), ids=lambda stub: str(stub.relative_to(ROOT)))
def test_every_name_of_our_stubs_is_there(stub: Path) -> None:
    """No name is that of a module beside the stub in which it stands: the import of the module would hide it."""
    place = stub.relative_to(ROOT.parent).with_suffix("")
    name = ".".join(place.parts if place.stem != "__init__" else place.parts[:-1])
    module = importlib.import_module(name)
    lines = [line for line in ast.parse(stub.read_text()).body if isinstance(line, ast.ImportFrom)]
    assert sum(len(line.names) for line in lines) == len(module.__all__)
    for line in lines:
        for alias in line.names:
            assert getattr(module, alias.asname or alias.name) is not None
            assert not line.level or alias.name != line.module
