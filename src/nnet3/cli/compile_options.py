"""The options of the compiler on command lines: Kaldi's switches, each for the pass that does the same, and ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnet3.cli.verb import take_internal
from nnet3.options import HIGHEST_LEVEL, CompileOptions

#: Kaldi's switches, and the passes that one of them, when it is off, leaves out. Others have no pass here.
PASSES_OF_SWITCHES: Mapping[str, tuple[str, ...]] = {
    "propagate-in-place": ("work_in_place",),
    "backprop-in-place": ("work_in_place",),
    "remove-assignments": ("share_copies",),
    "initialize-undefined": ("remove_unneeded_zeroing",),
    "move-sizing-commands": ("move_sizing",),
}
_MERGES = ("share_copies", "work_in_place")


def take_compile_options() -> CompileOptions:
    """Takes `--optimization.*` and `--computation.debug` from the command line; with debug passes are checked."""
    disabled = {name for switch, passes in PASSES_OF_SWITCHES.items() if not _take(switch, True) for name in passes}
    if not any([_take("allow-left-merge", True), _take("allow-right-merge", True)]):
        disabled.update(_MERGES)
    if _take("memory-compression-level", 1) <= 0:
        disabled.add("compress_signs")
    disabled.update(name for name in _take("disable-pass", "").split(",") if name)
    return CompileOptions(
        optimize=_take("optimize", True),
        level=_take("level", HIGHEST_LEVEL),
        disabled_passes=frozenset(disabled),
        check=bool(take_internal("computation.debug", False)),
    )


def _take(name: str, default: Any) -> Any:
    return take_internal(f"optimization.{name}", default)
