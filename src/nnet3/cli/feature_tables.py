"""Makes tables of features from features: deltas, splices and so on, statistics, and normalised features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import click
import numpy as np

from nnet3.base.kaldi_io.general import dense
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.specifiers import is_table
from nnet3.base.kaldi_io.table_values import (
    matrix_writer,
    open_general_matrix_table,
    open_matrix_table,
    open_words_table,
    random_access_matrices,
    random_access_tokens,
    random_access_vectors,
)
from nnet3.base.kaldi_io.table_writer import TableWriter
from nnet3.base.kaldi_io.tables import RandomAccessTable
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.recognizer import OnlineCmvnOptions
from nnet3.cli.files import open_file, save
from nnet3.cli.messages import LeftOut, say
from nnet3.cli.number_tables import part_of_file
from nnet3.errors import Nnet3Error
from nnet3.speech.features.cmvn import Normalising, add_to_stats
from nnet3.speech.features.feature_changes import pasted, shifted, spliced, subsampled, with_deltas
from nnet3.speech.features.features import OnlineCmvn

S = TypeVar("S")


def add_deltas(source: str, output: str, order: int, window: int, columns: int) -> int:
    """Writes features with their differences in time, of the first `columns` columns, 0 for all."""

    def longer(_: str, rows: np.ndarray) -> np.ndarray:
        if columns > rows.shape[1]:
            raise Nnet3Error(f"it has {rows.shape[1]} columns, fewer than --truncate={columns}")
        return with_deltas(rows[:, : columns or None], order, window)

    return write_changed(source, output, longer, needs_some=False)


def splice(source: str, output: str, left: int, right: int) -> int:
    """Writes frames with their neighbours."""
    return write_changed(source, output, lambda _, rows: spliced(rows, left, right), needs_some=False)


def subsample(source: str, output: str, step: int, offset: int) -> int:
    """Writes every `step`-th frame, or each several times."""
    return write_changed(source, output, lambda _, rows: subsampled(rows, step, offset), empty=step < 0)


def paste(sources: Sequence[str], output: str, tolerance: int, binary: bool) -> int:
    """Writes features of several tables, or the matrices in several files, side by side; `binary` is about a file.

    Returns 1, an exit status, if there were none. Raises UsageError for tables and files together.
    """
    if len({is_table(name) for name in (*sources, output)}) > 1:
        raise click.UsageError("give tables and a table to write, or files and a file to write")
    if not is_table(sources[0]):
        whole = pasted([dense(part_of_file(name)) for name in sources], tolerance)
        save(output, binary, lambda writer: writer.matrix(whole))
        return 0
    others = [random_access_matrices(name) for name in sources[1:]]

    def beside(key: str, rows: np.ndarray) -> np.ndarray:
        found = [table.get(key) for table in others]
        parts = [part for part in found if part is not None]
        if len(parts) < len(found):
            lacking = next(name for name, part in zip(sources[1:], found, strict=True) if part is None)
            raise Nnet3Error(f"{lacking} has no features for it")
        return pasted([rows, *parts], tolerance)

    return write_changed(sources[0], output, beside)


def shift(source: str, output: str, frames: int, binary: bool) -> int:
    """Writes features `frames` frames later; repeats of the first, or below 0 the last, frame fill what is free."""
    if is_table(source):
        return write_changed(source, output, lambda _, rows: shifted(rows, frames), "Shifted")
    rows = shifted(dense(part_of_file(source)), frames)
    save(output, binary, lambda writer: writer.matrix(rows))
    return 0


def concatenate(sources: Sequence[str], output: str, binary: bool) -> None:
    """Writes the frames of the matrices in several files one behind the other."""
    parts = [dense(part_of_file(name)) for name in sources]
    widths = {name: part.shape[1] for name, part in zip(sources, parts, strict=True) if len(part)}
    if len(set(widths.values())) > 1:
        raise Nnet3Error("columns differ: " + ", ".join(f"{name} has {width}" for name, width in widths.items()))
    whole = np.concatenate([part for part in parts if len(part)] or parts[:1])
    save(output, binary, lambda writer: writer.matrix(whole))


def write_changed(
    source: str,
    output: str,
    change: Callable[[str, np.ndarray], np.ndarray],
    done: str = "Done",
    empty: bool = False,
    needs_some: bool = True,
) -> int:
    """Writes changed features of all changeable utterances, utterances of no frames only if `empty`.

    The last message begins with the word `done`. Returns 1, an exit status, if all were left out, or, if it
    `needs_some`, there were none.
    """
    left_out = LeftOut()

    def changed(key: str, rows: np.ndarray) -> np.ndarray:
        if not empty and not len(rows):
            raise Nnet3Error("it has no frames")
        return change(key, rows)

    with open_matrix_table(source) as table, matrix_writer(output) as writer:
        for key, rows in left_out.each(table, changed):
            writer.write(key, rows)
    say(f"{done} {writer.count} utterances, {left_out.failed} left out.")
    return int(writer.count == 0 and (needs_some or left_out.failed > 0))


def write_by_speaker(
    features: str,
    output: str,
    spk2utt: str,
    change: Callable[[str, np.ndarray, S | None], tuple[np.ndarray, S]],
    report: str,
) -> int:
    """Writes features, changed by `change` from key, features and the speaker's state before, if any.

    `change` returns the state behind the utterance too. The last message is the `report`, with the numbers of written
    and left out utterances put in. Returns 1, an exit status, if none is written.
    """
    left_out = LeftOut()
    with matrix_writer(output) as writer:
        for _, utterances in by_speaker(features, spk2utt, left_out):
            speaker: S | None = None
            for key, rows in utterances:
                made = left_out.made(key, change, key, rows, speaker)
                if made is not None:
                    speaker = made[1]
                    writer.write(key, made[0])
    say(report.format(writer.count, left_out.failed))
    return int(writer.count == 0)


def normalise_tables(stats: str, features: str, output: str, utt2spk: str, options: Normalising | None) -> int:
    """Writes features, normalised by `options`, or as they are, compressed ones too; 1, an exit status, without any."""
    if options is None:
        with open_general_matrix_table(features) as table, matrix_writer(output) as writer:
            for key, matrix in table:
                writer.write(key, matrix)
        say(f"Copied {writer.count} utterances.")
        return int(writer.count == 0)
    find = _found(stats, utt2spk)
    return write_changed(features, output, lambda key, rows: options.apply(rows, find(key)), "Normalised", empty=True)


def write_stats(features: str, output: str, spk2utt: str, weights: str, binary: bool) -> int:
    """Writes statistics of utterances or speakers to a table, or those of all to a file.

    Returns 1, an exit status, if there were none.
    """
    if not is_table(output):
        if spk2utt:
            raise Nnet3Error(f"{output}: --spk2utt needs a table of statistics, not one file for all")
        return _write_stats_of_all(features, output, weights, binary)
    tally = _Statistics(weights)
    with TableWriter(output, partial(Writer.matrix, double=True)) as writer:
        for speaker, utterances in by_speaker(features, spk2utt, tally):
            found = None
            for key, matrix in utterances:
                found = tally.add(key, matrix, found)
            if found is None:
                say(f"warning: there are no statistics for '{speaker}'")
            else:
                writer.write(speaker, found)
    say(f"Done accumulating CMVN stats for {tally.done} utterances; {tally.failed} had errors.")
    return int(writer.count == 0)


def normalise_online(stats: str, features: str, output: str, spk2utt: str, options: OnlineCmvnOptions) -> int:
    """Writes features that statistics of the frames before normalise, at first those of everybody, in a file.

    With `spk2utt` those of the speaker's utterances before come in between. Returns 1, an exit status, if none is
    written.
    """
    everybody = _read_doubles(open_file(stats))
    if not np.isfinite(everybody).all():
        raise Nnet3Error(f"{stats}: the statistics have a NaN or an infinity")

    def normalised(_: str, matrix: np.ndarray, of_speaker: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        if everybody.shape != (2, matrix.shape[1] + 1):
            raise Nnet3Error(f"the statistics are {everybody.shape}, expected (2, {matrix.shape[1] + 1})")
        if not np.isfinite(matrix).all():
            raise Nnet3Error("its features have a NaN or an infinity")
        cmvn = OnlineCmvn(options, everybody, of_speaker)
        cmvn.accept(matrix)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = cmvn.at(np.arange(len(matrix)))
        if not np.isfinite(rows).all():
            raise Nnet3Error("its features are not finite any more with these statistics: is one of the two damaged?")
        return rows, cmvn.stats if of_speaker is None else of_speaker + cmvn.stats

    return write_by_speaker(features, output, spk2utt, normalised, "Applied online CMVN to {} files, {} had errors.")


class _Statistics(LeftOut):
    """Adds up statistics of utterances, whose weights are in a table, or none for "", and counts them."""

    def __init__(self, weights: str):
        super().__init__()
        self._weights = random_access_vectors(weights) if weights else None
        self.done = 0

    def add(self, key: str, matrix: np.ndarray, before: np.ndarray | None) -> np.ndarray | None:
        """Returns the statistics plus an utterance's; a failing utterance is left out with a warning."""
        sums = self.made(key, self._sums, key, matrix, before)
        self.done += sums is not None
        return before if sums is None else sums

    def _sums(self, key: str, matrix: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        weights = self._weights.get(key) if self._weights is not None else None
        if self._weights is not None and weights is None:
            raise Nnet3Error("there are no weights for it")
        return add_to_stats(before, matrix, weights)


def _write_stats_of_all(features: str, output: str, weights: str, binary: bool) -> int:
    tally, found = _Statistics(weights), None
    with open_matrix_table(features) as table:
        for key, matrix in table:
            found = tally.add(key, matrix, found)
    if found is None:
        raise Nnet3Error(f"{features}: there are no features to make statistics of")
    save(output, binary, lambda writer: writer.matrix(found.astype(np.float32)))
    say(f"Wrote global CMVN stats of {tally.done} utterances to {output}; {tally.failed} had errors.")
    return 0


def by_speaker(
    features: str, spk2utt: str, left_out: LeftOut
) -> Iterator[tuple[str, Iterator[tuple[str, np.ndarray]]]]:
    """Yields speakers with their existing utterances; without `spk2utt` every utterance is a speaker's."""
    if not spk2utt:
        with open_matrix_table(features) as table:
            for key, matrix in table:
                yield key, iter([(key, matrix)])
        return
    by_key = random_access_matrices(features)
    with open_words_table(spk2utt) as speakers:
        for speaker, keys in speakers:
            yield speaker, left_out.each(((key, by_key) for key in keys), _found_features)


def _found_features(key: str, by_key: RandomAccessTable[np.ndarray]) -> np.ndarray:
    if (matrix := by_key.get(key)) is None:
        raise Nnet3Error("there are no features for it")
    return matrix


def _found(stats: str, utt2spk: str) -> Callable[[str], np.ndarray]:
    """Returns a function that gives the statistics of an utterance, or raises Nnet3Error."""
    if not is_table(stats):
        if utt2spk:
            raise Nnet3Error("--utt2spk needs a table of statistics, not one file for all")
        whole = _read_doubles(open_file(stats))
        return lambda key: whole
    by_key, speakers = RandomAccessTable(stats, _read_doubles), random_access_tokens(utt2spk) if utt2spk else None

    def find(key: str) -> np.ndarray:
        speaker = key if speakers is None else speakers.get(key)
        found = None if speaker is None else by_key.get(speaker)
        if found is None:
            raise Nnet3Error(
                "there is no speaker for it" if speaker is None else f"there are no statistics for '{speaker}'"
            )
        return found

    return find


def _read_doubles(reader: Reader) -> np.ndarray:
    return reader.matrix(np.float64)
