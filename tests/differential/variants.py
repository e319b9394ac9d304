"""The ways to run the passes that are compared: none, all, up to each level, each alone, all but one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from nnet3.engine.ir.passes import pipeline
from nnet3.options import HIGHEST_LEVEL, CompileOptions


@dataclass(frozen=True)
class Variant:
    """Passes up to a level, without some."""

    name: str
    level: int = HIGHEST_LEVEL
    disabled: frozenset[str] = frozenset()

    def options(self) -> CompileOptions:
        return CompileOptions(level=self.level, disabled_passes=self.disabled)

    def passes(self) -> list[pipeline.Pass]:
        return [each for each in pipeline.PIPELINE if each.level <= self.level and each.name not in self.disabled]


PLAIN = Variant("no pass", level=0)
ALL = Variant("all passes")


def all_variants() -> Sequence[Variant]:
    """All but PLAIN."""
    levels, alone, without = _variants()
    return (*levels, *alone, *without)


def drawn_variants(seed: int, of_each: int = 2) -> Sequence[Variant]:
    """All passes, up to each level, and so many of those alone and of those left out, drawn by a seed."""
    rng = random.Random(seed)
    levels, alone, without = _variants()
    return (*levels, *rng.sample(alone, of_each), *rng.sample(without, of_each))


def _variants() -> tuple[Sequence[Variant], Sequence[Variant], Sequence[Variant]]:
    """Returns all passes and those up to each level, each pass alone, all but each."""
    names = [each.name for each in pipeline.PIPELINE]
    return (
        (ALL, *(Variant(f"-O{level}", level) for level in range(1, HIGHEST_LEVEL))),
        tuple(Variant(f"{name} alone", disabled=frozenset(names) - {name}) for name in names),
        tuple(Variant(f"all but {name}", disabled=frozenset({name})) for name in names),
    )
