"""Makes tables of features of such tables, one utterance after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nnet3.asr.feature_changes import pasted, spliced, subsampled, with_deltas
from nnet3.cli.messages import LeftOut, say
from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import matrix_writer, open_matrix_table, random_access_matrices


def add_deltas(source: str, output: str, order: int, window: int, columns: int) -> int:
    """Writes features with their differences in time; if `columns` is not 0, of so many first columns."""

    def longer(_: str, rows: np.ndarray) -> np.ndarray:
        if columns > rows.shape[1]:
            raise Nnet3Error(f"it has {rows.shape[1]} columns, fewer than --truncate={columns}")
        return with_deltas(rows[:, : columns or None], order, window)

    return write_changed(source, output, longer)


def splice(source: str, output: str, left: int, right: int) -> int:
    """Writes frames with their neighbours."""
    return write_changed(source, output, lambda _, rows: spliced(rows, left, right))


def subsample(source: str, output: str, step: int, offset: int) -> int:
    """Writes every `step`-th frame, or each several times."""
    return write_changed(source, output, lambda _, rows: subsampled(rows, step, offset))


def paste(sources: Sequence[str], output: str, tolerance: int) -> int:
    """Writes features of several tables side by side."""
    others = [random_access_matrices(name) for name in sources[1:]]

    def beside(key: str, rows: np.ndarray) -> np.ndarray:
        found = [table.get(key) for table in others]
        parts = [part for part in found if part is not None]
        if len(parts) < len(found):
            lacking = next(name for name, part in zip(sources[1:], found, strict=True) if part is None)
            raise Nnet3Error(f"{lacking} has no features for it")
        return pasted([rows, *parts], tolerance)

    return write_changed(sources[0], output, beside)


def write_changed(
    source: str, output: str, change: Callable[[str, np.ndarray], np.ndarray], done: str = "Done", empty: bool = False
) -> int:
    """Writes changed features of all utterances that can be changed, those of no frames only if `empty`.

    The last message begins with the word `done`. Returns 1, an exit status, if there were no utterances.
    """
    left_out = LeftOut()
    with open_matrix_table(source) as table, matrix_writer(output) as writer:
        for key, rows in table:
            with left_out.if_wrong(key):
                if not empty and not len(rows):
                    raise Nnet3Error("it has no frames")
                writer.write(key, change(key, rows))
        count = writer.count
    say(f"{done} {count} utterances, {left_out.failed} left out.")
    return int(count == 0)
