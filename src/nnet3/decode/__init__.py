"""Running a network over whole utterances: features in, one matrix of outputs out."""

from nnet3.decode.scores import Scoring, log_priors
from nnet3.decode.utterance import UtteranceComputer
from nnet3.decode.whole import compute_utterance
from nnet3.options import UtteranceOptions

__all__ = ["Scoring", "UtteranceComputer", "UtteranceOptions", "compute_utterance", "log_priors"]
