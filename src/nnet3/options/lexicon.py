"""Options of lexicons, language models and decoding graphs."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.errors import ModelFormatError
from nnet3.options.alignment import TrainingGraphOptions
from nnet3.options.declaring import Options, again, option
from nnet3.text.values import Boolean, Number, within


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
