"""Options of decoding audio as it comes, those of Kaldi's online2 programs, with Kaldi's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.base.options.declaring import Options, again, option
from nnet3.base.text.values import Boolean, Integer, Number, Rule, above, at_least, within

_BOOLEAN = Boolean()
_LEAST = 0.001  # seconds: Kaldi takes a sample at a time for as little as 1e-9, and an utterance takes long
#: Of the seconds of audio taken at a time.
AT_ONCE = Rule(f"<= 0 (all at once) or >= {_LEAST:g}", lambda seconds: seconds <= 0 or seconds >= _LEAST)


@dataclass(frozen=True)
class OnlineDecodingOptions(Options):
    """Decoding recordings as if they came from a microphone."""

    chunk_length: float = option(0.18, Number(AT_ONCE), "Audio taken at a time (<= 0: all at once).", unit="s")
    online: bool = option(
        True, _BOOLEAN, "Estimate ivectors while audio comes (false: from the whole utterance, in one piece)."
    )
    do_endpointing: bool = option(False, _BOOLEAN, "End an utterance where its speaker pauses; the rest is lost.")

    @property
    def seconds_at_once(self) -> float:
        """Seconds of audio taken at a time; not above 0 for all."""
        return self.chunk_length if self.online else -1.0


@dataclass(frozen=True)
class TcpOptions(Options):
    """Decoding audio that clients of a port send, as integers of 16 bits without a header."""

    samp_freq: float = option(16000.0, Number(within(1000, 400_000)), "Samples per second that come.", unit="Hz")
    chunk_length: float = again(OnlineDecodingOptions, "chunk_length", 0.18, kind=Number(at_least(_LEAST)),
        help="Audio taken at a time.")  # fmt: skip
    output_period: float = option(1.0, Number(above(0)), "Audio between partial results.", unit="s")
    read_timeout: int = option(3, Integer(), "Longest wait for audio (below 0: any).", unit="s")
    port_num: int = option(5050, Integer(within(0, 65535)), "Port to listen at (0: any that is free).")
    produce_time: bool = option(False, _BOOLEAN, "Begin and end in seconds before each text.")
