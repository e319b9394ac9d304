"""Options of discriminative training, with Kaldi's names and defaults (docs/discriminative.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from nnet3.base.options.declaring import Options, again, option
from nnet3.base.options.examples import InputOptions, MergingOptions, SubsetOptions
from nnet3.base.text.values import Boolean, Integer, Integers, Number, above, at_least, choice
from nnet3.errors import TrainingError

MMI, SMBR, MPFE = "mmi", "smbr", "mpfe"
_NUMBER = Number(at_least(0))


@dataclass(frozen=True)
class DiscriminativeOptions(Options, error=TrainingError):
    """The criterion of lattices and its terms.

    acoustic_scale: multiplies log-likelihoods. silence_phones: phones whose frames are silence, ascending; Kaldi, and
    nnet3 with it, misses phones of a list that is not. one_silence_class: silence for silence is right.
    """

    criterion: str = option(SMBR, choice(MMI, SMBR, MPFE), "What is maximised.")
    acoustic_scale: float = option(0.1, Number(at_least(0)), "Scale of log-likelihoods; chain models: 1.")
    silence_phones: tuple[int, ...] = option(
        (), Integers(separators=":", with_gaps=True), "Phones that are silence, such as 1:2:3, ascending."
    )
    one_silence_class: bool = option(False, Boolean(), "smbr, mpfe: any silence is right for silence.")
    boost: float = option(0.0, Number(), "mmi: paths count more by this for each frame of a wrong phone.")
    drop_frames: bool = option(
        False, Boolean(), "mmi: no derivatives at frames whose right pdf the lattice does not have."
    )
    xent_regularize: float = option(0.0, _NUMBER, "Scale of the cross-entropy of the output NAME-xent.")
    l2_regularize: float = option(0.0, _NUMBER, "On the output itself.")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        phones = self.silence_phones
        if self.criterion == MMI and self.boost and any(first >= second for first, second in pairwise(phones)):
            yield "silence_phones", f"boost needs ascending silence phones, got {':'.join(map(str, phones))}"


@dataclass(frozen=True)
class DebuggingSums(Options):
    """Sums over frames by pdf, which compute-objf prints."""

    accumulate_gradients: bool = option(False, Boolean(), "Print the mean derivative by each pdf.")
    accumulate_output: bool = option(False, Boolean(), "Print the mean probability of each pdf.")
    num_pdfs: int = option(0, Integer(at_least(0)), "The number of pdfs, which these means need.")


@dataclass(frozen=True)
class DiscriminativeMakingOptions(InputOptions):
    """Making discriminative examples: cutting and determinizing denominator lattices."""

    acoustic_scale: float = option(0.1, Number(above(0)), "Scale of acoustic costs of lattices; chain models: 1.")
    collapse_transition_ids: bool = option(
        True, Boolean(), "One transition-id for each pdf of a frame, for smaller lattices; mpfe: better false."
    )
    determinize: bool = option(True, Boolean(), "Each sequence of transition-ids once, with its best path.")
    minimize: bool = option(True, Boolean(), "Determinize backwards and forwards.")


@dataclass(frozen=True)
class DiscriminativeMergingOptions(MergingOptions):
    """Merging discriminative examples into minibatches."""

    minibatch_size: str = again(MergingOptions, "minibatch_size", "64")


@dataclass(frozen=True)
class DiscriminativeSubsetOptions(SubsetOptions):
    """Taking some discriminative examples at random."""

    count: int = again(SubsetOptions, "count", 1000, kind=Integer(at_least(0)))
