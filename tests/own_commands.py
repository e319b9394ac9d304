"""Commands, rules and calls that a test or a page registers, forgotten after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nnet3.engine.ir.declarations import COMMAND_CLASSES
from nnet3.engine.runtime.calls import CALLS
from nnet3.engine.runtime.rules import RULES


@contextmanager
def forgotten_after() -> Iterator[None]:
    """The registries are afterwards as they are now."""
    registries: list[dict[Any, Any]] = [COMMAND_CLASSES, RULES, CALLS]
    known = [dict(registry) for registry in registries]
    yield
    for registry, before in zip(registries, known, strict=True):
        registry.clear()
        registry.update(before)
