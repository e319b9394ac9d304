"""Keeps the log of a run: one line an event in `log.txt`, the same as JSON in `log.jsonl`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nnet3.base.text import read_json
from nnet3.errors import Nnet3Error

_TEXT, _JSON = "log.txt", "log.jsonl"
_DIGITS = 6


class EventLog:
    """Appends to the log of a folder. An event has a name, and values by name; each line is one write."""

    def __init__(self, folder: Path):
        self.folder = folder
        try:
            self._files = [_open_for_appending(folder / name) for name in (_TEXT, _JSON)]
        except OSError as error:
            raise Nnet3Error(f"{error.filename or folder}: the log cannot be written: {error.strerror}") from None

    def write(self, event: str, **values: Any) -> str:
        """Writes an event; returns its line without the time."""
        now = time.time()
        line = f"{event} {' '.join(f'{name}={_shown(value)}' for name, value in values.items())}".rstrip()
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        record = json.dumps({"event": event, "time": round(now, 3), **values}, ensure_ascii=False)
        # Bytes of paths that are no UTF-8 stand as they are; in JSON they have an escape, as os.fsdecode makes of them.
        contents = f"{stamp} {line}\n".encode(errors="surrogateescape"), f"{record}\n".encode(errors="backslashreplace")
        for file, text in zip(self._files, contents, strict=True):
            try:
                os.write(file, text)
            except OSError as error:
                raise Nnet3Error(f"{self.folder}: the log cannot be written: {error.strerror}") from None
        return line

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []


def read_events(folder: Path) -> list[dict[str, Any]]:
    """Returns the events of a log as if the run had never stopped: repetitions after a resumption count once.

    Lines that a sudden end has cut short are left out.
    """
    events: list[dict[str, Any]] = []
    for event in _parsed_lines(folder / _JSON):
        if event["event"] == "resume":
            events = _until(events, event.get("step", 0))
        events.append(event)
    return events


def _until(events: list[dict[str, Any]], step: int) -> list[dict[str, Any]]:
    """Returns the events up to the line of the step's checkpoint; without such a line, the events up to `step`."""
    written = [n for n, event in enumerate(events) if event["event"] == "checkpoint" and event.get("step") == step]
    return events[: written[-1] + 1] if written else [event for event in events if event.get("step", 0) <= step]


def _parsed_lines(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, "rb") as file:
        for line in file:
            try:
                event = read_json(line)
            except ValueError:
                continue
            if isinstance(event, dict) and isinstance(event.get("event"), str) and type(event.get("step", 0)) is int:
                yield event


def _open_for_appending(path: Path) -> int:
    """Returns a descriptor of a file whose last line is complete."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    size = os.fstat(descriptor).st_size
    if size:
        os.lseek(descriptor, size - 1, os.SEEK_SET)
        if os.read(descriptor, 1) != b"\n":
            os.write(descriptor, b"\n")
    return descriptor


def _shown(value: Any) -> str:
    """Returns a value without blanks outside quotes, so that words can be told apart."""
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    is_word = text != "" and not any(c.isspace() or c == '"' for c in text)
    return text if is_word else json.dumps(text, ensure_ascii=False)
