# The public names of nnet3.decode, and where each lives.
from .batch import BatchComputer as BatchComputer
from .cutting import BatchOptions as BatchOptions, UtteranceOptions as UtteranceOptions
from .pronunciation import PhoneScore as PhoneScore, gop as gop, phone_log_posteriors as phone_log_posteriors
from .scores import Scoring as Scoring, log_priors as log_priors
from .stream import Stream as Stream, StreamComputer as StreamComputer, StreamOptions as StreamOptions
from .stream_program import StreamChunk as StreamChunk, StreamProgram as StreamProgram
from .whole import UtteranceComputer as UtteranceComputer, compute_utterance as compute_utterance
from .xvector import XvectorComputer as XvectorComputer, cosine_scores as cosine_scores, xvectors as xvectors
