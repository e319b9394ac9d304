"""Running networks over utterances, one or many, and over streams of frames: outputs, one vector, scores of them."""

from nnet3.decode.batch import BatchComputer
from nnet3.decode.pronunciation import PhoneScore, gop, phone_log_posteriors
from nnet3.decode.scores import Scoring, log_priors
from nnet3.decode.stream import Stream, StreamComputer
from nnet3.decode.stream_program import StreamChunk, StreamProgram
from nnet3.decode.utterance import UtteranceComputer
from nnet3.decode.whole import compute_utterance
from nnet3.decode.xvector import XvectorComputer, cosine_scores, xvectors
from nnet3.options import BatchOptions, StreamOptions, UtteranceOptions

__all__ = [
    "BatchComputer",
    "BatchOptions",
    "PhoneScore",
    "Scoring",
    "Stream",
    "StreamChunk",
    "StreamComputer",
    "StreamOptions",
    "StreamProgram",
    "UtteranceComputer",
    "UtteranceOptions",
    "XvectorComputer",
    "compute_utterance",
    "cosine_scores",
    "gop",
    "log_priors",
    "phone_log_posteriors",
    "xvectors",
]
