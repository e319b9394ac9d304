"""Makes training examples of tables of features and targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from nnet3.cli.egs_tables import write, write_to_several
from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error, TrainingError
from nnet3.examples import EXAMPLES, ExampleMaker, MakingStatistics, make_examples
from nnet3.examples.chunk_ios import FrameTargets, alignment_matrix, posterior_matrix
from nnet3.examples.xvector_making import XvectorStatistics, make_xvector_examples, read_ranges
from nnet3.kaldi_io import (
    RandomAccessTable,
    open_general_matrix_table,
    open_matrix_table,
    random_access_int_vectors,
    random_access_matrices,
    random_access_posteriors,
)
from nnet3.kaldi_io.specifiers import parse_rxfilename
from nnet3.kaldi_io.streams import read_whole
from nnet3.options import MakingOptions, XvectorMakingOptions

T = TypeVar("T")


@dataclass(frozen=True)
class MakingTables:
    """The tables that a command line names."""

    features: str
    targets: str
    online_ivectors: str | None
    output: str


def make_from_posteriors(tables: MakingTables, num_pdfs: int, pdf_alignments: bool, options: MakingOptions) -> None:
    """Examples with sparse supervision, of posteriors or, with `pdf_alignments`, of the pdf of each frame."""
    if pdf_alignments:
        pdfs = random_access_int_vectors(tables.targets)
        _make(tables, pdfs, lambda alignment: alignment_matrix(alignment, num_pdfs), options)
    else:
        posteriors = random_access_posteriors(tables.targets)
        _make(tables, posteriors, lambda posterior: posterior_matrix(posterior, num_pdfs), options)


def make_from_matrices(tables: MakingTables, num_targets: int | None, options: MakingOptions) -> None:
    """Examples with a row of a target matrix for each output frame."""

    def checked(matrix: np.ndarray) -> FrameTargets:
        if num_targets is not None and matrix.shape[1] != num_targets:
            raise TrainingError(f"its target matrix has {matrix.shape[1]} columns, but --num-targets={num_targets}")
        return matrix

    _make(tables, random_access_matrices(tables.targets), checked, options)


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


def _make(
    tables: MakingTables,
    targets: RandomAccessTable[T],
    to_supervision: Callable[[T], FrameTargets],
    options: MakingOptions,
) -> None:
    maker, statistics = ExampleMaker(options), MakingStatistics()
    ivectors = random_access_matrices(tables.online_ivectors) if tables.online_ivectors else None
    with open_general_matrix_table(tables.features) as features:
        made = make_examples(maker, features, targets, to_supervision, ivectors, statistics)
        write(EXAMPLES, tables.output, made, statistics)
        say(f"{statistics}; {maker.splitter.summary()}")
