"""Transcribes recording after recording, and goes on behind unreadable recordings."""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.markup import escape

from nnet3.base.kaldi_io.specifiers import is_table
from nnet3.cli.messages import say
from nnet3.cli.recordings import SCRIPT_OF_FOLDER, Recordings, sources_of
from nnet3.cli.segments_file import Seconds, Segments, parts_of, read_segments
from nnet3.cli.transcript_output import TranscriptError, TranscriptOutput
from nnet3.errors import Nnet3Error
from nnet3.speech.asr.model_search import model_directory
from nnet3.speech.asr.recognizer import Model, Recognizer
from nnet3.speech.asr.speakers import SpkModel
from nnet3.speech.asr.vosk_json import SpokenText
from nnet3.speech.features.audio_file import open_audio, open_raw
from nnet3.speech.features.audio_source import AudioSource, BytesInOrder

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
    tasks: int,
    segments: str | None,
    spk_model: str | None,
    graph: str | None,
) -> None:
    """Writes transcripts of recordings. Raises Nnet3Error if none could be read, or one could not be written."""
    first = recordings[0]
    is_named = len(recordings) > 1 or segments is not None or is_table(first) or Path(first).is_dir()
    if is_named and output_format in ("srt", "vtt") and output_dir is None:
        raise click.UsageError("subtitles of several recordings need --output-dir")
    parts = _segments_of(recordings) if segments is None else read_segments(segments)
    speakers = None if spk_model is None else SpkModel(spk_model)
    loaded = Model(model_directory(model), graph=graph)
    output = TranscriptOutput(output_format or "txt", recordings, is_named, output_dir, alternatives)

    def opened(file: BytesInOrder, source: str) -> AudioSource:
        return open_raw(file, source, sample_rate or 0, channels) if raw else open_audio(file, source)

    def recognizer_of(recording: AudioSource) -> Recognizer:
        return Recognizer(
            *(loaded, recording.rate),
            speaker_model=speakers,
            alternatives=alternatives,
            channels=recording.channels,
            channel=channel,
        )

    progress = _Progress(quiet=sys.stdout.isatty() and output_dir is None)
    sources = (source for name in recordings for source in sources_of(name, opened))
    if parts or segments is not None:
        sources = (partial(_parts_of_source, source, parts) for source in sources)
    listener = _Listener(recognizer_of, progress)
    done = failed = 0
    with output, progress.shown() if tasks > 1 else contextlib.nullcontext():
        for key, source, heard in listener.one_by_one(sources) if tasks == 1 else listener.side_by_side(sources, tasks):
            try:
                if isinstance(heard, Nnet3Error):
                    raise heard
                output.write(key, source, iter(heard))
                done += 1
            except TranscriptError:
                raise
            except Nnet3Error as error:
                say(f"warning: {error}; left out")
                failed += 1
    if done == 0:
        none = "no recordings"
        if segments is not None:
            of = ", ".join([*parts][:3]) or "none"
            none = f"no recording has a segment in {segments}, whose segments are of {of}"
        raise Nnet3Error(f"no recording was transcribed ({failed} left out)" if failed else none)
    say(f"{done} recordings transcribed, {failed} left out; {progress}")


def _segments_of(recordings: Sequence[str]) -> dict[str, dict[str, Seconds]]:
    """Returns the parts said by the files `segments` of Kaldi's data folders among the recordings."""
    found: dict[str, dict[str, Seconds]] = {}
    for folder in map(Path, recordings):
        if (folder / SCRIPT_OF_FOLDER).is_file() and (folder / "segments").is_file():
            found |= read_segments(str(folder / "segments"))
    return found


def _parts_of_source(source: Callable[[], Recordings], parts: Segments) -> Recordings:
    return parts_of(source(), parts)


#: The key and the file of a recording, and what was heard, or why it was not.
_Heard = tuple[str, str, "Iterable[SpokenText] | Nnet3Error"]


class _Listener:
    """Hears recordings with recognizers of their own."""

    def __init__(self, recognizer_of: Callable[[AudioSource], Recognizer], progress: _Progress):
        self._recognizer_of, self._progress = recognizer_of, progress

    def one_by_one(self, sources: Iterable[Callable[[], Recordings]]) -> Iterator[_Heard]:
        """Yields results, words as they come. After Ctrl-C the last result has the recording up to this moment."""
        for source in sources:
            for key, recording in source():
                if isinstance(recording, Nnet3Error):
                    yield key, "", recording
                    continue
                with self._progress.shown(), _Interrupt() as interrupt:
                    yield key, recording.source, self._heard(key, recording, interrupt)
                if interrupt.came:
                    raise KeyboardInterrupt

    def side_by_side(self, sources: Iterable[Callable[[], Recordings]], tasks: int) -> Iterator[_Heard]:
        """Yields what is heard, in the order of the sources, a few of which are heard at once."""
        stop = _Stop()

        def hear(source: Callable[[], Recordings]) -> list[_Heard]:
            found: list[_Heard] = []
            for key, recording in source():
                try:
                    if isinstance(recording, Nnet3Error):
                        raise recording
                    found.append((key, recording.source, list(self._heard(key, recording, stop))))
                except Nnet3Error as error:
                    found.append((key, "", error))
            return found

        waiting = deque[Future[list[_Heard]]]()
        with ThreadPoolExecutor(tasks, "nnet3-transcribe") as pool:
            try:
                for source in sources:
                    waiting.append(pool.submit(hear, source))
                    if len(waiting) > 2 * tasks:
                        yield from waiting.popleft().result()
                while waiting:
                    yield from waiting.popleft().result()
            finally:
                stop.came.set()
                for each in waiting:
                    each.cancel()

    def _heard(self, key: str, recording: AudioSource, interrupt: _Interrupt | _Stop) -> Iterator[SpokenText]:
        """Yields what is heard of a recording. The errors name it."""
        try:
            with self._recognizer_of(recording) as recognizer:
                if recording.rate != recognizer.model.sample_rate:
                    say(f"{key}: resampled from {recording.rate} to {recognizer.model.sample_rate:g} Hz")
                yield from _heard(recognizer, recording, key, self._progress, interrupt)
        except Nnet3Error as error:
            raise Nnet3Error(f"{key}: {error}") from None


class _Stop:
    """Ends recordings that are heard in other threads."""

    def __init__(self) -> None:
        self.came = threading.Event()

    def until(self, parts: Iterator[Samples]) -> Iterator[Samples]:
        """Yields the parts that come before the event."""
        return itertools.takewhile(lambda _: not self.came.is_set(), parts)


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
    recognizer: Recognizer, recording: AudioSource, key: str, progress: _Progress, interrupt: _Interrupt | _Stop
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
        self._begin, self._audio, self._lock = time.perf_counter(), 0.0, threading.Lock()
        console = Console(stderr=True)
        self._status = console.status("") if console.is_terminal and not quiet else None

    def shown(self) -> contextlib.AbstractContextManager[object]:
        """Shows progress within it."""
        return self._status or contextlib.nullcontext()

    def add(self, key: str, now: float, end: float | None, seconds: float) -> None:
        """Adds `seconds` of audio of recording `key`, now at second `now` of `end`, None if unknown."""
        with self._lock:
            self._audio += seconds
        if self._status is not None:
            done = f"{min(now / end, 1):.0%} of {end:.0f} s" if end else f"{now:.0f} s"
            self._status.update(f"{escape(key)}: {done}; {self}")

    def __str__(self) -> str:
        needed = time.perf_counter() - self._begin
        return (
            f"{self._audio:.1f} s of audio in {needed:.1f} s (real-time factor {needed / max(self._audio, 1e-9):.2f})"
        )
