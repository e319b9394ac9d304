"""Normalises means and variances of tables of features by statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import (
    load_matrix,
    matrix_writer,
    open_matrix_table,
    random_access_matrices,
    random_access_tokens,
)
from nnet3.kaldi_io.specifiers import is_table

_LEAST_VARIANCE = 1e-20


@dataclass(frozen=True)
class Normalising:
    """What is done to features: variances too, the other way round, and not to some columns."""

    variances: bool = False
    reverse: bool = False
    skipped: tuple[int, ...] = ()

    def apply(self, features: np.ndarray, stats: np.ndarray) -> np.ndarray:
        """Returns features (frames, columns) normalised by sums and count, and sums of squares, (2, columns + 1).

        Raises Nnet3Error for statistics that do not fit.
        """
        columns = features.shape[1]
        if stats.shape != (2, columns + 1):
            raise Nnet3Error(f"its statistics are {stats.shape}, expected (2, {columns + 1}) for {columns} columns")
        count = float(stats[0, -1])
        if not count > 0:
            raise Nnet3Error(f"its statistics are of {count:g} frames")
        if any(column >= columns for column in self.skipped):
            raise Nnet3Error(f"--skip-dims names column {max(self.skipped)}, but there are {columns}, from 0")
        mean = stats[0, :-1].astype(np.float64) / count
        variance = np.maximum(stats[1, :-1].astype(np.float64) / count - mean**2, _LEAST_VARIANCE)
        deviation = np.sqrt(variance) if self.variances else np.ones(columns)
        mean[list(self.skipped)], deviation[list(self.skipped)] = 0.0, 1.0
        if self.reverse:
            return (features * deviation + mean).astype(np.float32)
        return (features / deviation - mean / deviation).astype(np.float32)


def normalise_tables(stats: str, features: str, output: str, utt2spk: str, options: Normalising | None) -> int:
    """Writes features, normalised by `options`, or as they are. Returns 1, an exit status, if there were none."""
    find = _found(stats, utt2spk) if options is not None else None
    failed = 0
    with open_matrix_table(features) as table, matrix_writer(output) as writer:
        for key, matrix in table:
            try:
                writer.write(key, matrix if find is None or options is None else options.apply(matrix, find(key)))
            except Nnet3Error as error:
                failed += 1
                say(f"warning: utterance '{key}' left out: {error}")
        done = writer.count
    say(f"{'Copied' if options is None else 'Normalised'} {done} utterances, {failed} left out.")
    return int(done == 0)


def _found(stats: str, utt2spk: str) -> Callable[[str], np.ndarray]:
    """Returns a function that gives the statistics of an utterance, or raises Nnet3Error."""
    if not is_table(stats):
        if utt2spk:
            raise Nnet3Error("--utt2spk needs a table of statistics, not one file for all")
        whole = load_matrix(stats)
        return lambda key: whole
    by_key, speakers = random_access_matrices(stats), random_access_tokens(utt2spk) if utt2spk else None

    def find(key: str) -> np.ndarray:
        speaker = key if speakers is None else speakers.get(key)
        found = None if speaker is None else by_key.get(speaker)
        if found is None:
            raise Nnet3Error(
                "there is no speaker for it" if speaker is None else f"there are no statistics for '{speaker}'"
            )
        return found

    return find
