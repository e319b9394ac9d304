"""Options of programs that change recordings, with Kaldi's names and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnet3.base.options.declaring import Options, option
from nnet3.base.text.values import Number, above

_SECONDS = Number(above(0))


@dataclass(frozen=True)
class TrailingSilenceOptions(Options):
    """Making recordings longer by silence of their own: their quietest piece near the begin and the end, repeated."""

    extra_silence_length: float = option(5.0, _SECONDS, "Silence to add.", unit="s")
    silence_search_length: float = option(
        0.5, _SECONDS, "Where to look for silence, at the begin and at the end.", unit="s"
    )
    silence_extract_length: float = option(0.05, _SECONDS, "Length of the quietest piece.", unit="s")
    silence_extract_shift: float = option(0.025, _SECONDS, "From one piece looked at to the next.", unit="s")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.silence_extract_length >= self.silence_search_length:
            yield (
                "silence_extract_length",
                f"silence_extract_length must be below silence_search_length, {self.silence_search_length:g}, got "
                f"{self.silence_extract_length:g}",
            )
