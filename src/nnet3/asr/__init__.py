"""Recognizers: from audio to words with a model directory of Vosk or Kaldi."""

from nnet3.asr.acoustic_stream import AcousticStream, accept_pieces
from nnet3.asr.decoding import DecodingGraph
from nnet3.asr.endpoints import Endpointing
from nnet3.asr.features import FeatureStream
from nnet3.asr.ivectors import IvectorModel, OnlineIvectors
from nnet3.asr.model_folder import FrontModel, ModelFolder
from nnet3.asr.silence import SilenceWeighting
from nnet3.asr.speaker_state import SpeakerState

__all__ = [
    "AcousticStream",
    "DecodingGraph",
    "Endpointing",
    "FeatureStream",
    "FrontModel",
    "IvectorModel",
    "ModelFolder",
    "OnlineIvectors",
    "SilenceWeighting",
    "SpeakerState",
    "accept_pieces",
]
