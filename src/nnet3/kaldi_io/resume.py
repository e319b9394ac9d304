"""What an archive with a script holds already, so that writing it can go on where it ended."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nnet3.errors import ModelFormatError, TableError
from nnet3.kaldi_io.reader import Reader
from nnet3.kaldi_io.script import read_script
from nnet3.kaldi_io.specifiers import parse_rxfilename, parse_wspecifier


@dataclass(frozen=True)
class Finished:
    """The first `size` bytes of the file `archive`, whose entries have these positions by key."""

    archive: str = ""
    size: int = 0
    positions: dict[str, int] | None = None

    @property
    def keys(self) -> set[str]:
        return set(self.positions or {})


def finished_entries(wspecifier: str, read: Callable[[Reader], Any]) -> Finished:
    """What an `ark,scp:` wspecifier names has already, as its script says; nothing if the files are not there.

    Raises TableError for another wspecifier, or if script and archive do not belong together.
    """
    specifier = parse_wspecifier(wspecifier)
    if specifier.archive is None or specifier.script is None:
        raise TableError(f"{wspecifier}: only an archive with a script can be resumed: ark,scp:out.ark,out.scp")
    if not (os.path.isfile(specifier.archive) and os.path.isfile(specifier.script)):
        return Finished()
    positions: dict[str, int] = {}
    for entry in read_script(specifier.script):
        file = parse_rxfilename(entry.name)
        if file.kind != "file" or file.name != specifier.archive or entry.range:
            raise TableError(
                f"{wspecifier}: cannot resume, since the script says '{entry.key} {entry.name}', which is not in that "
                "archive: remove both files to begin again"
            )
        positions[entry.key] = file.offset
    if not positions:
        return Finished()
    return Finished(specifier.archive, _end_of(wspecifier, specifier.archive, max(positions.values()), read), positions)


def _end_of(wspecifier: str, archive: str, position: int, read: Callable[[Reader], Any]) -> int:
    """Where the object at this position ends."""
    try:
        reader = Reader.open(archive)
        reader.position = position
        reader.binary = False
        reader.read_header()
        read(reader)
    except ModelFormatError as error:
        raise TableError(f"{wspecifier}: cannot resume, {error}: remove both files to begin again") from None
    return reader.position
