"""What differs between two runs of one program is masked, in what is printed and in files of text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

# What a rule finds -> what stands for it.
RULES = {
    r"\d+\.\d+ s\b": "# s",  # compiled in 0.012 s
    r"(?m)^ *\d+\.\d us  c": "# us  c",  # the time of a command
    r"\d+\.\d+ ms in all": "# ms in all",
    r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ": "DATE ",  # the log of a training run
    r"\b(p50|p99|real-time factor) \d+\.\d+": r"\1 #",  # of chunks of streams
    r'"time": \d+\.\d+': '"time": #',
    r"(frames_per_second|seconds_left|idle_share)(=|\": )[\d.e-]+": r"\1\2#",
    r"\bprocess \d+ on \S+": "process # on HOST",  # who holds the lock of a run
    r"\bevents\.out\.tfevents\.\S+": "events.out.tfevents.#",
    r'"(ts|dur)": [\d.]+': r'"\1": #',  # the trace of a profile
}
# Files whose contents are left out: they hold times, in a form that is no text.
VARYING = re.compile(r"events\.out\.tfevents\.")


class Mask:
    """Masks what the rules find, and the names of some folders."""

    def __init__(self, folders: Mapping[str, str]):
        self._folders = folders

    def text(self, text: str) -> str:
        for folder, name in self._folders.items():
            text = text.replace(folder, name)
        for rule, replacement in RULES.items():
            text = re.sub(rule, replacement, text)
        return text

    def printed(self, contents: bytes) -> list[str]:
        """The lines of what was printed, an empty one after the last newline; of bytes one that sums them up."""
        text = _decoded(contents)
        if text is None:
            return [f"{len(contents)} bytes, {_digest(contents)}"]
        return self.text(text).split("\n") if text else []

    def file(self, folder: Path, name: str) -> str:
        """Name and digest of a file, without the file's own contents where these vary."""
        if VARYING.search(name):
            return f"{self.text(name)} (varies)"
        contents = (folder / name).read_bytes()
        text = _decoded(contents)
        return f"{name} {_digest(contents if text is None else self.text(text).encode())}"


def _decoded(contents: bytes) -> str | None:
    """The text that bytes are, if they are."""
    try:
        return None if b"\0" in contents else contents.decode()
    except UnicodeDecodeError:
        return None


def _digest(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()
