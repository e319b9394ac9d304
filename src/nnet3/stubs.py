"""Imports that wait: a module's stub lists names, and each is imported when it is first asked for.

Type checkers read the same stub. What needs no tensors, such as a command's help, need not wait for PyTorch.
"""

from __future__ import annotations

import ast
import gc
import importlib
import sys

TYPE_CHECKING = False  # to type checkers it is true; the import of typing would take a third of that of nnet3
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def without_collection(name: str) -> ModuleType:
    """Imports a module by its full name without looking for garbage: what modules make is there to stay.

    PyTorch makes half a million objects, through which the collector would go again and again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        if was_enabled:
            gc.enable()


def attach_stub(
    module: str, file: str, load: Callable[[str], ModuleType] = without_collection
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns `__getattr__`, `__dir__` and `__all__` of a module whose stub, `file` with the ending .pyi, has imports.

    `from .place import name` stands for the name in a module of the package, `from . import name` for a module of it;
    places may also be absolute. `load` imports a module by its full name.
    """
    with open(file.removesuffix(".py") + ".pyi", encoding="utf-8") as stub:
        lines = [line for line in ast.parse(stub.read()).body if isinstance(line, ast.ImportFrom)]
    places = {alias.asname or alias.name: (line, alias.name) for line in lines for alias in line.names}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        line, attribute = places[name]
        place = ".".join(filter(None, (module if line.level else "", line.module)))
        value = None if place == module else getattr(load(place), attribute, None)
        value = load(f"{place}.{attribute}") if value is None else value
        vars(sys.modules[module])[name] = value  # found there from now on
        return value

    return get, lambda: sorted(places), sorted(places)
