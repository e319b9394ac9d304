"""Running a network over whole utterances: features in, one matrix of outputs out."""

from nnet3.decode.utterance import UtteranceComputer, UtteranceOptions

__all__ = ["UtteranceComputer", "UtteranceOptions"]
