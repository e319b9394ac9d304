"""Counts the word errors of tables of transcripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeVar

import click

from nnet3.base.kaldi_io.table_values import open_words_table, random_access_words, words_writer
from nnet3.cli.messages import LeftOut, say
from nnet3.errors import Nnet3Error
from nnet3.speech.asr.word_errors import WordErrors, aligned_words, word_errors

T = TypeVar("T")


def compute_wer(said: str, heard: str, mode: str) -> None:
    """Prints Kaldi's lines. `mode`: what becomes of sentences that were not heard: strict, all or present."""
    with open_words_table(heard) as table:
        known = dict(each_once(table, heard))
    total, absent = WordErrors(), 0
    with open_words_table(said) as table:
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


def align_texts(first: str, second: str, output: str, nothing: str, between: str) -> int:
    """Writes the words of two texts side by side, pair by pair. Returns 1, an exit status, if no text is in both."""
    left_out, by_key = LeftOut(), random_access_words(second)

    def aligned(key: str, words: list[str]) -> list[str]:
        others = by_key.get(key)
        if others is None:
            raise Nnet3Error(f"{second} has no text for it")
        if nothing in (*words, *others):
            raise click.UsageError(f"the text of '{key}' has the word {nothing}: choose another --special-symbol")
        pairs = [[*pair, between] for pair in aligned_words(words, others, nothing)]
        return list(chain.from_iterable(pairs))[:-1]

    with open_words_table(first) as table, words_writer(output) as writer:
        for key, pairs in left_out.each(table, aligned):
            writer.write(key, pairs)
        say(f"Done {writer.count} sentences, failed for {left_out.failed}")
        return int(writer.count == 0)


def each_once(table: Iterable[tuple[str, T]], name: str) -> Iterator[tuple[str, T]]:
    """Passes entries on. Raises Nnet3Error for a key that comes a second time."""
    seen: set[str] = set()
    for key, entry in table:
        if key in seen:
            raise Nnet3Error(f"{name}: the key '{key}' is there twice: leave one of them out")
        seen.add(key)
        yield key, entry
