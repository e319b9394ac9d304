"""Transcribes recording after recording, and goes on behind unreadable recordings."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.markup import escape

from nnet3.base.kaldi_io.specifiers import is_table
from nnet3.cli.messages import say
from nnet3.cli.recordings import recordings_of
from nnet3.cli.transcript_output import TranscriptError, TranscriptOutput
from nnet3.errors import Nnet3Error
from nnet3.speech.asr.audio_file import open_audio, open_raw
from nnet3.speech.asr.audio_source import AudioSource, BytesInOrder
from nnet3.speech.asr.recognizer import Model, Recognizer
from nnet3.speech.asr.vosk_json import SpokenText

_PIECE_SECONDS = 0.2
Samples = npt.NDArray[np.generic]


def transcribe(
    model: str,
    recordings: Sequence[str],
    output_format: str | None,
    alternatives: int,
    output_dir: str | None,
    raw: bool,
    sample_rate: int | None,
    channels: int,
    channel: int | None,
    graph: str | None,
) -> None:
    """Writes transcripts of recordings. Raises Nnet3Error if none could be read, or one could not be written."""
    is_named = len(recordings) > 1 or is_table(recordings[0])
    if is_named and output_format in ("srt", "vtt") and output_dir is None:
        raise click.UsageError("subtitles of several recordings need --output-dir")
    loaded = Model(model, graph=graph)
    output = TranscriptOutput(output_format or "txt", recordings, is_named, output_dir, alternatives)

    def opened(file: BytesInOrder, source: str) -> AudioSource:
        return open_raw(file, source, sample_rate or 0, channels) if raw else open_audio(file, source)

    progress = _Progress(quiet=sys.stdout.isatty() and output_dir is None)
    done = failed = 0
    with output:
        for key, recording in (each for name in recordings for each in recordings_of(name, opened)):
            if isinstance(recording, Nnet3Error):
                say(f"warning: {recording}; left out")
                failed += 1
                continue
            try:
                if recording.rate != loaded.sample_rate:
                    say(f"{key}: resampled from {recording.rate} to {loaded.sample_rate:g} Hz")
                recognizer = Recognizer(
                    *(loaded, recording.rate),
                    alternatives=alternatives,
                    channels=recording.channels,
                    channel=channel,
                )
                with recognizer, progress.shown(), _Interrupt() as interrupt:
                    output.write(key, recording.source, _heard(recognizer, recording, key, progress, interrupt))
                if interrupt.came:
                    raise KeyboardInterrupt
                done += 1
            except TranscriptError:
                raise
            except Nnet3Error as error:
                say(f"warning: {key}: {error}; left out")
                failed += 1
    if done == 0:
        raise Nnet3Error(f"no recording was transcribed ({failed} left out)" if failed else "no recordings")
    say(f"{done} recordings transcribed, {failed} left out; {progress}")


class _Interrupt:
    """Keeps Ctrl-C until audio is waited for, so that the transcript till then is whole; a second Ctrl-C ends all."""

    def __init__(self) -> None:
        self.came, self._is_waiting = False, False

    def __enter__(self) -> _Interrupt:
        self._before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(self, *error: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._before)

    def _take(self, number: int, frame: object) -> None:
        is_second, self.came = self.came, True
        if is_second or self._is_waiting:
            raise KeyboardInterrupt

    def until(self, parts: Iterator[Samples]) -> Iterator[Samples]:
        """Yields the parts that come before Ctrl-C."""
        while (part := self._next(parts)) is not None:
            yield part

    def _next(self, parts: Iterator[Samples]) -> Samples | None:
        part = None
        with contextlib.suppress(KeyboardInterrupt):
            self._is_waiting = True
            if not self.came:  # asked when one that comes now would raise
                part = next(parts, None)
        self._is_waiting = False
        return part


def _heard(
    recognizer: Recognizer, recording: AudioSource, key: str, progress: _Progress, interrupt: _Interrupt
) -> Iterator[SpokenText]:
    """Yields the spoken text of each segment with speech."""
    now = 0.0
    for part in interrupt.until(recording.pieces(_PIECE_SECONDS)):
        seconds = len(part) / recording.rate
        heard = recognizer.result() if recognizer.accept(part) else None
        now += seconds
        progress.add(key, now, recording.seconds, seconds)
        if heard is not None and heard.words:
            yield heard
    if recording.notice:
        say(f"warning: {key}: {recording.notice}")
    heard = recognizer.finish()
    if heard.words:
        yield heard


class _Progress:
    """Shows on a terminal how far a recording is, and how much time all of them needed of their own."""

    def __init__(self, quiet: bool):
        self._begin, self._audio = time.perf_counter(), 0.0
        console = Console(stderr=True)
        self._status = console.status("") if console.is_terminal and not quiet else None

    def shown(self) -> contextlib.AbstractContextManager[object]:
        """Shows progress within it."""
        return self._status or contextlib.nullcontext()

    def add(self, key: str, now: float, end: float | None, seconds: float) -> None:
        """Counts seconds of audio more, of a recording that is at `now` of `end`, if that is known."""
        self._audio += seconds
        if self._status is not None:
            place = f"{min(now / end, 1):.0%} of {end:.0f} s" if end else f"{now:.0f} s"
            self._status.update(f"{escape(key)}: {place}; {self}")

    def __str__(self) -> str:
        needed = time.perf_counter() - self._begin
        return (
            f"{self._audio:.1f} s of audio in {needed:.1f} s (real-time factor {needed / max(self._audio, 1e-9):.2f})"
        )
