"""The ways to run the passes that are compared: none, all, up to each level, each alone, all but one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnet3.ir.passes import pipeline
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
    names = [each.name for each in pipeline.PIPELINE]
    return (
        ALL,
        *(Variant(f"-O{level}", level) for level in range(1, HIGHEST_LEVEL)),
        *(Variant(f"{name} alone", disabled=frozenset(names) - {name}) for name in names),
        *(Variant(f"all but {name}", disabled=frozenset({name})) for name in names),
    )
