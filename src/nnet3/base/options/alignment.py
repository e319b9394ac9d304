"""Options of lexicons, of training and decoding graphs, and of alignments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnet3.base.options.declaring import Options, again, option
from nnet3.base.text.values import Boolean, Integer, Number, above, at_least, within
from nnet3.errors import ExecutionError, ModelFormatError

_SCALE = Number(at_least(0))


@dataclass(frozen=True)
class TrainingGraphOptions(Options):
    """Options by which transcripts become graphs of transition-ids. Names and defaults are Kaldi's."""

    transition_scale: float = option(0.0, _SCALE, "Scale of the costs of transitions that are no self-loops.")
    self_loop_scale: float = option(0.0, _SCALE, "Scale of the costs of self-loops and of leaving them.")
    reorder: bool = option(True, Boolean(), "Self-loops come after the transition that leaves their state.")
    rm_eps: bool = option(False, Boolean(), "Accepted for Kaldi's sake: the graph is the same.", hidden=True)


@dataclass(frozen=True)
class LangOptions(Options, error=ModelFormatError):
    """Options by which a dictionary becomes a folder `lang`. Names and defaults are of Kaldi's prepare_lang.sh."""

    position_dependent_phones: bool = option(True, Boolean(), "Phones differ by where in the word they stand.")
    sil_prob: float = option(0.5, Number(within(0, 1)), "That there is silence before the first and behind each word.")


@dataclass(frozen=True)
class DecodingGraphOptions(Options):
    """Scales of a decoding graph. Names and defaults are those of Kaldi's mkgraph.sh; chain models: 1 for both."""

    transition_scale: float = again(TrainingGraphOptions, "transition_scale", 1.0)
    self_loop_scale: float = again(TrainingGraphOptions, "self_loop_scale", 0.1)


@dataclass(frozen=True)
class AlignmentOptions(Options, error=ExecutionError):
    """The search for the best path of a training graph. Costs are negative logarithms; defaults are Kaldi's."""

    beam: float = option(200.0, Number(above(0)), "Paths this much worse than the best one are dropped.")
    retry_beam: float = option(0.0, _SCALE, "The beam of a second try where no path has come to an end; 0: none.")
    careful: bool = option(False, Boolean(), "Give up where speech goes on behind the end of the transcript.")
    transition_scale: float = option(1.0, _SCALE, "Scale of the costs of transitions to other states, added here.")
    self_loop_scale: float = option(1.0, _SCALE, "Scale of the costs of self-loops and of leaving them, added here.")
    acoustic_scale: float = option(0.1, Number(above(0)), "Scale of the network's scores; chain models: 1.")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if 0 < self.retry_beam <= self.beam:
            yield "retry_beam", f"retry_beam must be 0 or more than beam, {self.beam:g}, got {self.retry_beam:g}"


@dataclass(frozen=True)
class WordTimesOptions(Options, error=ExecutionError):
    """Options of finding when words were said; by default those of Kaldi's recipes for the kind of model."""

    beam: float = again(AlignmentOptions, "beam", 10.0)
    retry_beam: float = again(AlignmentOptions, "retry_beam", 40.0)
    acoustic_scale: float = option(0.0, _SCALE, "Scale of the network's scores; 0: 1 for chain models, else 0.1.")
    self_loop_scale: float = option(
        -1.0, Number(at_least(-1)), "Scale of the costs of self-loops; -1: 1 for chain models, else 0.1."
    )
    frame_subsampling_factor: int = option(
        0,
        Integer(at_least(0)),
        "Frames for each output; 0: as the file beside the model says, else 3 for chain models.",
    )
    frame_shift: float = option(0.01, Number(above(0)), "Seconds between frames.", unit="seconds")


@dataclass(frozen=True)
class TransitionOptions(Options):
    """Options by which transition probabilities are estimated. Names and defaults are Kaldi's."""

    transition_floor: float = option(0.01, Number(within(0, 1)), "Smallest probability.")
    transition_min_count: float = option(5.0, Number(at_least(0)), "Frames below which a state's stay as they are.")
    share_for_pdfs: bool = option(False, Boolean(), "States of one pdf have the same probabilities.")
