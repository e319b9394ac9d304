# The public names of nnet3.decode, and where each lives.
from nnet3.base.options.utterances import (
    BatchOptions as BatchOptions,
    StreamOptions as StreamOptions,
    UtteranceOptions as UtteranceOptions,
)
from nnet3.inference.batch import BatchComputer as BatchComputer
from nnet3.inference.pronunciation import (
    PhoneScore as PhoneScore,
    gop as gop,
    phone_log_posteriors as phone_log_posteriors,
)
from nnet3.inference.scores import Scoring as Scoring, log_priors as log_priors
from nnet3.inference.stream import Stream as Stream, StreamComputer as StreamComputer
from nnet3.inference.stream_program import StreamChunk as StreamChunk, StreamProgram as StreamProgram
from nnet3.inference.whole_utterance import (
    UtteranceComputer as UtteranceComputer,
    compute_utterance as compute_utterance,
)
from nnet3.inference.xvector import (
    XvectorComputer as XvectorComputer,
    cosine_scores as cosine_scores,
    xvectors as xvectors,
)
