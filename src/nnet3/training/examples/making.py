"""Makes examples from features and supervision (Kaldi: nnet3-get-egs, nnet3-get-egs-dense-targets)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from nnet3.base.kaldi_io.general import GeneralMatrix, compressed
from nnet3.base.kaldi_io.tables import RandomAccessTable, TableReader
from nnet3.base.options.examples import MakingOptions
from nnet3.errors import TrainingError
from nnet3.training.examples.chunk_ios import (
    FrameTargets,
    check_ivectors,
    check_length,
    chunk_inputs,
    chunk_supervision,
)
from nnet3.training.examples.chunks import ChunkSplitter
from nnet3.training.examples.example import Example

E = TypeVar("E")
T = TypeVar("T")
_LOG = logging.getLogger("nnet3")


class ExampleMaker:
    """Makes the examples of utterance after utterance. `splitter` counts cuts."""

    def __init__(self, options: MakingOptions):
        self.options = options
        self.splitter = ChunkSplitter(options.chunks)
        self._rng = generator(options.seed)

    def make(
        self, key: str, features: GeneralMatrix, supervision: FrameTargets, ivectors: np.ndarray | None = None
    ) -> list[tuple[str, Example]]:
        """Returns the examples of an utterance and the keys, `KEY-FIRSTFRAME`; none if the utterance is too short.

        features (frames, dim); supervision (output frames, columns); ivectors (rows, dim). TrainingError if the
        lengths do not fit.
        """
        options, num_frames, factor = self.options, features.shape[0], self.options.chunks.frame_subsampling_factor
        if num_frames == 0 or supervision.shape[0] == 0:
            raise TrainingError("there are no frames")
        check_length(
            "frames of supervision", supervision.shape[0], num_frames, factor, options.targets_length_tolerance
        )
        check_ivectors(ivectors, options.online_ivector_period, num_frames, options.length_tolerance)
        examples = []
        for chunk in self.splitter.split(num_frames, self._rng):
            ios = [
                *chunk_inputs(features, chunk, self._rng, ivectors, options.online_ivector_period),
                chunk_supervision(supervision, chunk, factor),
            ]
            if options.compress:
                ios = [replace(io, matrix=compressed(io.matrix)) for io in ios]
            examples.append((f"{key}-{chunk.first_frame}", Example(tuple(ios))))
        return examples


@dataclass
class MakingStatistics:
    """Counts of utterances: `failed` utterances lack data or do not fit; `short` utterances have too few frames."""

    utterances: int = 0
    examples: int = 0
    failed: int = 0
    short: int = 0

    def __str__(self) -> str:
        return (
            f"{self.examples} examples of {self.utterances} utterances; {self.failed} could not be used, "
            f"of {self.short} no chunk could be made"
        )


def make_examples(
    maker: ExampleMaker,
    features: TableReader[GeneralMatrix],
    targets: RandomAccessTable[T],
    to_supervision: Callable[[T], FrameTargets],
    ivectors: RandomAccessTable[np.ndarray] | None = None,
    statistics: MakingStatistics | None = None,
) -> Iterator[tuple[str, Example]]:
    """Yields the examples of all utterances in a table; see `examples_of`."""

    def made(key: str, matrix: GeneralMatrix) -> list[tuple[str, Example]]:
        supervision = to_supervision(entry_of(targets, key, "supervision"))
        return maker.make(key, matrix, supervision, None if ivectors is None else entry_of(ivectors, key, "ivectors"))

    return examples_of(features, made, MakingStatistics() if statistics is None else statistics)


def examples_of(
    features: TableReader[GeneralMatrix],
    make: Callable[[str, GeneralMatrix], list[tuple[str, E]]],
    counts: MakingStatistics,
    short: str = "its %d frames are too few for a chunk",
) -> Iterator[tuple[str, E]]:
    """Yields the examples that `make` makes of a table's utterances; leaves unusable utterances out with a warning.

    `short`: the warning about too few frames for an example.
    """
    for key, matrix in features:
        counts.utterances += 1
        try:
            examples = make(key, matrix)
        except TrainingError as error:
            counts.failed += 1
            _LOG.warning("%s is left out: %s", key, error)
            continue
        if not examples:
            counts.short += 1
            _LOG.warning(f"%s is left out: {short}", key, matrix.shape[0])
        counts.examples += len(examples)
        yield from examples


def entry_of(table: RandomAccessTable[T], key: str, what: str) -> T:
    """Returns the entry of an utterance. Raises TrainingError without an entry; `what` names the entry."""
    value = table.get(key)
    if value is None:
        raise TrainingError(f"{table.specifier.text} has no {what} of it")
    return value


def generator(seed: int) -> np.random.Generator:
    """Returns a generator for any integer as seed, as `--srand` takes it."""
    return np.random.default_rng(seed % 2**64)
