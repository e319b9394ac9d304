"""Makes training examples of tables of features and targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import numpy as np

from nnet3.base.kaldi_io.general import GeneralMatrix
from nnet3.base.kaldi_io.specifiers import parse_rxfilename
from nnet3.base.kaldi_io.streams import read_whole
from nnet3.base.kaldi_io.table_values import (
    open_general_matrix_table,
    open_matrix_table,
    random_access_general_matrices,
    random_access_int_vectors,
    random_access_matrices,
    random_access_posteriors,
)
from nnet3.base.kaldi_io.tables import RandomAccessTable
from nnet3.base.options.examples import MakingOptions, XvectorMakingOptions
from nnet3.cli.egs_tables import write, write_to_several
from nnet3.cli.messages import LeftOut, say
from nnet3.errors import Nnet3Error, TrainingError
from nnet3.training.examples.chunk_ios import FrameTargets, alignment_matrix, indexes, posterior_matrix
from nnet3.training.examples.example import EXAMPLES, Example, NnetIo
from nnet3.training.examples.making import ExampleMaker, MakingStatistics, make_examples
from nnet3.training.examples.xvector_making import XvectorStatistics, make_xvector_examples, read_ranges

T = TypeVar("T")


def make_from_posteriors(targets: str, num_pdfs: int, pdf_alignments: bool, **others: Any) -> None:
    """Examples with sparse supervision, of posteriors or, with `pdf_alignments`, of the pdf of each frame."""
    if pdf_alignments:
        _make(random_access_int_vectors(targets), lambda alignment: alignment_matrix(alignment, num_pdfs), **others)
    else:
        _make(random_access_posteriors(targets), lambda posterior: posterior_matrix(posterior, num_pdfs), **others)


def make_from_matrices(targets: str, num_targets: int, **others: Any) -> None:
    """Examples with a row of a target matrix for each output frame; any number of columns if `num_targets` < 0."""

    def checked(matrix: np.ndarray) -> FrameTargets:
        if 0 <= num_targets != matrix.shape[1]:
            raise TrainingError(f"its target matrix has {matrix.shape[1]} columns, but --num-targets={num_targets}")
        return matrix

    _make(random_access_matrices(targets), checked, **others)


def make_from_ranges(ranges: str, features: str, outputs: Sequence[str], options: XvectorMakingOptions) -> None:
    """Examples for x-vectors, of the stretches that a file of ranges names."""
    text = bytes(read_whole(parse_rxfilename(ranges))).decode("utf-8", "surrogateescape")
    stretches = read_ranges(text, ranges, len(outputs))
    statistics = XvectorStatistics()
    with open_matrix_table(features) as table:
        made = make_xvector_examples(table, stretches, options, statistics)
        write_to_several(EXAMPLES, outputs, made, features, statistics)
    say(str(statistics))
    if 2 * statistics.unlisted > statistics.utterances:
        raise Nnet3Error(f"{ranges}: {statistics.unlisted} of {statistics.utterances} utterances are not in it")


def make_of_matrices(tables: Sequence[str], output: str) -> None:
    """Examples of whole matrices, full, sparse or compressed as they are, of the keys that all tables have.

    A table is NAME=RSPECIFIER, NAME that of the input or output. Raises UsageError for another form.
    """
    named = [table.partition("=") for table in tables]
    wrong = [table for table, (name, equals, specifier) in zip(tables, named, strict=True) if not (name and specifier)]
    if wrong:
        raise click.UsageError(f"'{wrong[0]}': expected NAME=RSPECIFIER, such as input=ark:images.ark")
    first, *others = [(name, specifier) for name, _, specifier in named]
    by_key = [(name, random_access_general_matrices(specifier)) for name, specifier in others]
    left_out = LeftOut("'{}' left out: {}")

    def example(key: str, matrix: GeneralMatrix) -> Example:
        found = [(name, table.get(key)) for name, table in by_key]
        missing = [name for name, other in found if other is None]
        if missing:
            raise TrainingError(f"the table of '{missing[0]}' has no such key")
        ios = [(first[0], matrix), *((name, other) for name, other in found if other is not None)]
        return Example(tuple(NnetIo(name, indexes(0, each.shape[0]), each) for name, each in ios))

    with open_general_matrix_table(first[1]) as table:
        count = write(EXAMPLES, output, left_out.each(table, example))
        say(f"{count} examples written, {left_out.failed} left out")


def _make(
    targets: RandomAccessTable[T],
    to_supervision: Callable[[T], FrameTargets],
    options: MakingOptions,
    features: str,
    online_ivectors: str | None,
    output: str,
) -> None:
    maker, statistics = ExampleMaker(options), MakingStatistics()
    ivectors = random_access_matrices(online_ivectors) if online_ivectors else None
    with open_general_matrix_table(features) as table:
        made = make_examples(maker, table, targets, to_supervision, ivectors, statistics)
        write(EXAMPLES, output, made, statistics)
        say(f"{statistics}; {maker.splitter.summary()}")
