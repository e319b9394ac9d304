"""Options of the compiler."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from nnet3.base.options.declaring import Options, declared, option
from nnet3.base.text.values import Boolean, Integer, within
from nnet3.errors import ArgumentError

_FIRST, _LAST = -(2**31), 2**31 - 1
_LEVEL = "optimization.level"
HIGHEST_LEVEL = 4
DEFAULT_LEVEL = 4


@dataclass(frozen=True)
class _Limit(Integer):
    """A time, or None for no limit; so does the number that Kaldi has for it."""

    none: int = 0

    def take(self, value: Any) -> int | None:  # type: ignore[override]
        taken = None if value is None else super().take(value)
        return None if taken == self.none else taken


def _limit(none: int, flag: str, help: str) -> Any:
    kind = _Limit(none=none)
    return option(None, kind, help, unit="frames", flag=f"optimization.{flag}", program_default=none, hidden=True)


@dataclass(frozen=True, kw_only=True)
class DerivTimes(Options):
    """Limits of the times t with derivatives: those outside count as zero, at every node. None: no limit.

    `max_deriv_time_relative` counts from the last t of all requested outputs, and takes the place of `max_deriv_time`.
    """

    min_deriv_time: int | None = _limit(_FIRST, "min-deriv-time", "Derivatives before this time count as zero.")
    max_deriv_time: int | None = _limit(_LAST, "max-deriv-time", "Derivatives after this time count as zero.")
    max_deriv_time_relative: int | None = _limit(
        _LAST, "max-deriv-time-relative", "The same, counted from the last time of the output."
    )

    def conflicts(self) -> Iterator[tuple[str, str]]:
        first, last = self.min_deriv_time, self.max_deriv_time
        if first is not None and last is not None and self.max_deriv_time_relative is None and first > last:
            yield "min_deriv_time", f"min_deriv_time is {first}, after max_deriv_time, {last}"

    def deriv_times(self) -> dict[str, int | None]:
        """Returns the three limits by name."""
        return {item.name: getattr(self, item.name) for item in declared(DerivTimes)}


@dataclass(frozen=True)
class CompileOptions(DerivTimes):
    """`optimize`: run the passes up to `level`, except `disabled_passes`; `check`: run the checker between passes.

    `prove`: prove all programs before use, also programs made of others; plans of up to 64 MiB and links before they
    run. Without `prove` one program of each form is proved where a C compiler makes proofs cheap, or as NNET3_PROVE
    says (docs/proofs.md).
    """

    optimize: bool = option(True, Boolean(), "Run the passes.")
    level: int = option(
        DEFAULT_LEVEL, Integer(within(0, HIGHEST_LEVEL)), "Run the passes up to this level; 0: none.", flag=_LEVEL
    )
    disabled_passes: frozenset[str] = field(default_factory=frozenset)
    check: bool = option(False, Boolean(), "Run the checker between passes.")
    prove: bool = option(False, Boolean(), "Prove that passes, plans and links do not change what a program computes.")

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self.disabled_passes
        if isinstance(names, str | bytes) or not (
            isinstance(names, Collection) and all(isinstance(name, str) for name in names)
        ):
            raise ArgumentError(f"disabled_passes must be a set of names of passes, got {names!r}")
        object.__setattr__(self, "disabled_passes", frozenset(names))
