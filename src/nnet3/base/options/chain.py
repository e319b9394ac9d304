"""Options of sequence training, with Kaldi's names and defaults (docs/chain.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nnet3.base.options.declaring import Options, again, option
from nnet3.base.options.utterances import UtteranceOptions
from nnet3.base.text.values import Boolean, Integer, Number, at_least, between, bounds
from nnet3.errors import TrainingError

_NUMBER = Number(at_least(0))


@dataclass(frozen=True)
class ChainOptions(Options, error=TrainingError):
    """The terms of the LF-MMI objective besides numerator and denominator.

    l2_regularize: l adds -l/2 times the sum of squares of the output. xent_regularize: scales the derivative by a
    second output of log-probabilities. lwf_den_scale: for end-to-end supervisions the denominator's derivative is
    multiplied by 1 + lwf_den_scale.
    """

    l2_regularize: float = option(0.0, _NUMBER, "On the output itself.")
    out_of_range_regularize: float = option(0.01, _NUMBER, "Pulls outputs beyond -30 .. 30 back.")
    xent_regularize: float = option(0.0, _NUMBER, "Scale of the cross-entropy of the output NAME-xent; recipes: 0.1.")
    lwf_den_scale: float = option(0.0, _NUMBER, "End to end: more of the denominator's derivative.")


@dataclass(frozen=True)
class DenominatorOptions(Options):
    """The denominator: its leaky HMM, and the check of its graph."""

    leaky_hmm_coefficient: float = option(
        1e-5,
        Number(between(0, 1)),
        "Share of a state's probability that goes to where sequences begin, between frames; recipes: 0.1.",
    )
    insist_on_den_fst: bool = option(
        False, Boolean(), "Take a denominator graph that does not have the sequences of the examples."
    )


@dataclass(frozen=True)
class PhoneLmOptions(Options, error=TrainingError):
    """Orders and size of the phone language model of a denominator graph."""

    ngram_order: int = option(4, Integer(at_least(2)), "Length of the longest n-grams.")
    no_prune_ngram_order: int = option(3, Integer(at_least(1)), "Length up to which no n-gram is dropped.")
    num_extra_lm_states: int = option(1000, Integer(at_least(0)), "States to keep beyond those it needs.")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.no_prune_ngram_order > self.ngram_order:
            yield (
                "no_prune_ngram_order",
                f"no_prune_ngram_order must be at most ngram_order, {self.ngram_order}, "
                f"got {self.no_prune_ngram_order}",
            )


@dataclass(frozen=True)
class Tolerances(Options, error=TrainingError):
    """The input frames by which a phone may come earlier (left) or end later (right) than it was aligned."""

    left: int = option(
        5, Integer(at_least(0)), "Frames a phone may come earlier.", unit="frames", flag="left-tolerance"
    )
    right: int = option(5, Integer(at_least(0)), "Frames a phone may end later.", unit="frames", flag="right-tolerance")
    frame_subsampling_factor: int = again(UtteranceOptions, "frame_subsampling_factor", 1)

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.left + self.right + 1 < self.frame_subsampling_factor:
            yield (
                "left",
                "tolerances must together not be less than the frame subsampling factor "
                f"{self.frame_subsampling_factor} - 1, got {self.left} and {self.right}",
            )


@dataclass(frozen=True)
class SupervisingOptions(Options, error=TrainingError):
    """Making supervision of phones. `convert_to_pdfs`: labels are pdf + 1, else transition-ids."""

    tolerances: Tolerances = field(default_factory=Tolerances)
    lm_scale: float = option(0.0, Number(bounds(minimum=0, below=1)), "Scale of the lattices' graph costs.")
    convert_to_pdfs: bool = option(True, Boolean(), "Labels: pdfs, not ids.")
