"""Counts the word errors of tables of transcripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import click

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.table_values import read_alignment
from nnet3.base.kaldi_io.tables import TableReader
from nnet3.base.text import words_of
from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error
from nnet3.speech.asr.word_errors import WordErrors, word_errors

T = TypeVar("T")
Words = tuple[str, ...] | tuple[int, ...]


def compute_wer(said: str, heard: str, text: bool, mode: str) -> None:
    """Prints Kaldi's lines. `mode`: what becomes of sentences that were not heard: strict, all or present."""
    read: Callable[[Reader], Words] = _read_words if text else _read_integers
    with TableReader(heard, read) as table:
        known = dict(each_once(table, heard))
    total, absent = WordErrors(), 0
    with TableReader(said, read) as table:
        for key, reference in each_once(table, said):
            if key not in known:
                absent += 1
                if mode == "strict":
                    raise Nnet3Error(f"{heard}: there is no sentence '{key}'; --mode=present leaves such ones out")
                if mode == "present":
                    continue
            total += word_errors(reference, known.pop(key, ()))
    if not total.words:
        raise Nnet3Error(f"{said}: there are no words to compare")
    if known:
        say(f"warning: {len(known)} sentences of {heard} are not in {said}")
    counts = f"{total.insertions} ins, {total.deletions} del, {total.substitutions} sub"
    partial = " [PARTIAL]" if absent else ""
    click.echo(f"%WER {100 * total.rate:.2f} [ {total.errors} / {total.words}, {counts} ]{partial}")
    click.echo(f"%SER {100 * total.sentence_rate:.2f} [ {total.wrong_sentences} / {total.sentences} ]")
    click.echo(f"Scored {total.sentences} sentences, {absent} not present in hyp.")


def each_once(table: Iterable[tuple[str, T]], name: str) -> Iterator[tuple[str, T]]:
    """Passes entries on. Raises Nnet3Error for a key that comes a second time."""
    seen: set[str] = set()
    for key, entry in table:
        if key in seen:
            raise Nnet3Error(f"{name}: the sentence '{key}' is there twice: leave one of them out")
        seen.add(key)
        yield key, entry


def _read_words(reader: Reader) -> tuple[str, ...]:
    return tuple(words_of(reader.line()))


def _read_integers(reader: Reader) -> tuple[int, ...]:
    return tuple(read_alignment(reader).tolist())
