"""TextGrid files, in which Praat shows when words and phones were said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_DECIMALS = 6


class TierInterval(NamedTuple):
    """The words between two times, in seconds."""

    text: str
    start: float
    end: float


def textgrid(tiers: Mapping[str, Sequence[TierInterval]], seconds: float) -> str:
    """Returns a TextGrid file of `seconds` with tiers of intervals, in order of time; gaps have no text."""
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", *_times("", 0.0, seconds)]
    lines += ["tiers? <exists> ", f"size = {len(tiers)} ", "item []: "]
    for number, (name, intervals) in enumerate(tiers.items(), 1):
        whole = _without_gaps(intervals, seconds)
        lines += [f"    item [{number}]:", '        class = "IntervalTier" ', f"        name = {_quoted(name)} "]
        lines += [*_times("        ", 0.0, seconds), f"        intervals: size = {len(whole)} "]
        for position, each in enumerate(whole, 1):
            lines += [f"        intervals [{position}]:", *_times("            ", each.start, each.end)]
            lines.append(f"            text = {_quoted(each.text)} ")
    return "\n".join(lines) + "\n"


def _without_gaps(intervals: Sequence[TierInterval], seconds: float) -> list[TierInterval]:
    """Returns intervals that cover the whole time, without empty intervals."""
    found, time = list[TierInterval](), 0.0
    for each in (*intervals, TierInterval("", seconds, seconds)):
        if each.start > time:
            found.append(TierInterval("", time, each.start))
        if each.end > each.start:
            found.append(each)
        time = max(time, each.end)
    return found


def _times(blanks: str, start: float, end: float) -> list[str]:
    return [f"{blanks}xmin = {_number(start)} ", f"{blanks}xmax = {_number(end)} "]


def _number(seconds: float) -> str:
    return f"{seconds:.{_DECIMALS}f}".rstrip("0").rstrip(".")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
