"""Writes transcripts: to standard output as they come, or into a file for each recording."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from nnet3.base.kaldi_io.files import write_atomically
from nnet3.base.kaldi_io.specifiers import is_table, parse_rspecifier, parse_rxfilename
from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error, TableError
from nnet3.speech.asr.transcript import ctm_lines, subtitles
from nnet3.speech.asr.vosk_json import SpokenText, TextAlternative, result_json

_BEGIN, _BETWEEN, _END = '{"results" : [\n', ",\n", "\n]}\n"  # of a JSON document


class TranscriptError(Nnet3Error):
    """An unwritable transcript: all others would fail too, or a recording would be lost."""


class TranscriptOutput:
    """Writes transcripts of recording after recording.

    `output_format`: txt, ctm, srt, vtt, json or jsonl. JSON on standard output is one document for all, which ends
    with the `with` block. With a `folder` each recording has a file, when it is whole; of `recordings`, names as on a
    command line, none is replaced.
    """

    def __init__(
        self, output_format: str, recordings: Sequence[str], is_named: bool, folder: str | None, alternatives: int
    ):
        self._format, self._alternatives = output_format, alternatives
        self._folder = None if folder is None else Path(folder)
        self._is_named = is_named and folder is None
        self._names: set[str] = set()
        self._inputs = [_file_of(name) for name in recordings]
        self._before = _BEGIN  # of the next object on standard output
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                raise TranscriptError(f"{folder}: --output-dir takes a folder, and a file is in its way") from None

    def __enter__(self) -> TranscriptOutput:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._before != _BEGIN and not (kind and issubclass(kind, OSError)):
            click.echo(_END, nl=False)

    def write(self, key: str, source: str, heard: Iterator[SpokenText]) -> None:
        """Writes the transcript of a recording, which comes from `source`. Raises TranscriptError if it cannot."""
        if self._folder is not None:
            target = self._folder / f"{self._new_name(key)}.{self._format}"
            for each in (*self._inputs, _file_of(source)):
                if target.exists() and os.path.exists(each) and os.path.samefile(target, each):
                    raise TranscriptError(f"{target} is a recording or a table of them: give another --output-dir")
            parts = _document(self._texts(key, heard)) if self._format == "json" else self._texts(key, heard)
            contents = "".join(parts).encode()
            try:
                write_atomically(target, contents)
            except Nnet3Error as error:
                raise TranscriptError(str(error)) from None
        elif self._format == "json":
            for text in self._texts(key, heard):
                click.echo(self._before + text, nl=False)
                self._before = _BETWEEN
        else:
            for text in self._texts(key, heard):
                click.echo(text, nl=False)

    def _new_name(self, key: str) -> str:
        """Returns an unused name for a recording's file, and says so if the name is not the recording's."""
        plain = name = key.replace("/", "_")
        number = 1
        while name in self._names:
            number += 1
            name = f"{plain}-{number}"
        if number > 1:
            say(f"warning: there is a recording {key} before this one: its words are in {name}.{self._format}")
        self._names.add(name)
        return name

    def _texts(self, key: str, heard: Iterator[SpokenText]) -> Iterator[str]:
        if self._format in ("srt", "vtt"):
            yield subtitles(heard, webvtt=self._format == "vtt")
        elif self._format == "ctm":
            yield from ctm_lines(key, heard)
        elif self._format in ("json", "jsonl"):
            for spoken in self._results(heard):
                name = {"recording": key} if self._is_named else {}
                named = SpokenText(spoken.words, spoken.alternatives, {**spoken.extra, **name})
                text = result_json(named, True, self._alternatives)
                yield text if self._format == "json" else json.dumps(json.loads(text), ensure_ascii=False) + "\n"
        elif self._is_named:
            yield " ".join([key, *(spoken.text for spoken in heard)]) + "\n"
        else:
            yield from (spoken.text + "\n" for spoken in heard)

    def _results(self, heard: Iterator[SpokenText]) -> Iterator[SpokenText]:
        """Yields what is heard; of silence, an empty result, as Vosk does."""
        is_silent = True
        for spoken in heard:
            is_silent = False
            yield spoken
        if is_silent:
            yield SpokenText([], [TextAlternative([], 1.0)])


def _document(results: Iterator[str]) -> Iterator[str]:
    before = _BEGIN
    for each in results:
        yield before + each
        before = _BETWEEN
    yield _END


def _file_of(name: str) -> str:
    """Returns the file that a recording or a table of recordings is in, "" for a pipe."""
    with contextlib.suppress(TableError):  # which is reported where the recording is to be read
        if is_table(name):
            table = parse_rspecifier(name)
            name = table.script if table.script is not None else table.archive or ""
        file = parse_rxfilename(name)
        return file.name if file.kind == "file" else ""
    return ""
