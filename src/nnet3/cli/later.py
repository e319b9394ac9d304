"""Modules that need PyTorch, imported at a verb's first use: help and wrong usage need none.

Names and places of the modules stand in later.pyi, for type checkers and for this module.
"""

import ast
from pathlib import Path
from types import ModuleType

from nnet3.cli.lazy import import_quickly


def _listed() -> dict[str, str]:
    """The module behind each name of the stub."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    lines = [line for line in stub.body if isinstance(line, ast.ImportFrom)]
    return {alias.asname or alias.name: f"{line.module}.{alias.name}" for line in lines for alias in line.names}


_MODULES = _listed()


def __getattr__(name: str) -> ModuleType:
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return import_quickly(_MODULES[name])
