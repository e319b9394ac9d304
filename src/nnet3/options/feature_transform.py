"""Options of LDA-like transforms of features."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.errors import TrainingError
from nnet3.options.declaring import Options, option
from nnet3.text.values import Boolean, Integer, Number, at_least


@dataclass(frozen=True)
class LdaStatsOptions(Options):
    """Gathering the statistics of an LDA-like transform."""

    rand_prune: float = option(
        0.0, Number(at_least(0)), "Weights below it become it or 0, at random, for speed; 0: all stay."
    )


@dataclass(frozen=True)
class FeatureTransformOptions(Options):
    """Options by which an LDA-like transform is estimated. Names and defaults are Kaldi's."""

    error = TrainingError

    dim: int = option(-1, Integer(at_least(-1)), "Rows of the transform; -1: as many as the features have.")
    within_class_factor: float = option(
        0.001, Number(at_least(0)), "How much variance within classes counts, beside that between them; 1: plain LDA."
    )
    max_singular_value: float = option(
        5.0, Number(), "Largest singular value of the transform; 0 or less: no such limit."
    )
    remove_offset: bool = option(True, Boolean(), "Append a column that makes the mean zero.")
