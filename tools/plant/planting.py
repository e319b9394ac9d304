"""Planting: the functions of a file get the code that they would have with a bug."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from nnet3.engine.ir.proof import equal
from tools.mutation.mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
#: Native code would prove without most of what is in these.
_BY_NUMPY = tuple(f"engine/ir/proof/{name}.py" for name in ("machine", "program_machine", "field", "randoms"))


class NotImportedError(Exception):
    """Nobody has imported the file of a bug."""


def plant(bug: Mutant) -> None:
    """Give the functions of the file, wherever they are kept, the code of the file with the bug.

    Raises NotImportedError if there are no functions of the file.
    """
    if bug.path.endswith(_BY_NUMPY):
        vars(equal)["library"] = lambda **_: None
    codes = defaultdict[str, list[CodeType]](list)
    for code in _codes(compile(bug.mutated, str(ROOT / bug.path), "exec")):
        codes[code.co_qualname].append(code)
    functions = _functions(bug.path)
    if not functions:
        raise NotImportedError(bug.path)
    for function in functions:
        alike = codes[function.__code__.co_qualname]
        if len(alike) == 1:
            function.__code__ = alike[0]
    forget_results([bug.path])


def forget_results(paths: Sequence[str]) -> None:
    """Forget what functions of these files have returned before, where they keep it."""
    gc.unfreeze()  # frozen objects are not among those that are listed
    caches = [each for each in gc.get_objects() if type(each) is _lru_cache_wrapper]
    for each in caches:
        code: Any = getattr(each.__wrapped__, "__code__", None)
        if code is not None and code.co_filename.endswith(tuple(paths)):
            each.cache_clear()


def _functions(path: str) -> list[FunctionType]:
    """Returns all functions there are that are written in a file."""
    gc.unfreeze()
    functions = (each for each in gc.get_objects() if type(each) is FunctionType)
    return [function for function in functions if function.__code__.co_filename.endswith(path)]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)
