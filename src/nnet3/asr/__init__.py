"""Recognizers: from audio to words with a model directory of Vosk or Kaldi."""

from nnet3.asr.acoustic_stream import AcousticStream, accept_pieces
from nnet3.asr.beam_search import BeamSearch
from nnet3.asr.decoding import DecodingGraph
from nnet3.asr.endpoints import Endpointing
from nnet3.asr.features import FeatureStream
from nnet3.asr.ivectors import IvectorModel, OnlineIvectors
from nnet3.asr.model_folder import FrontModel, ModelFolder
from nnet3.asr.recognizer import KaldiRecognizer, Model, Recognizer, SetLogLevel
from nnet3.asr.search_graph import SearchGraph
from nnet3.asr.silence import SilenceWeighting
from nnet3.asr.speaker_state import SpeakerState
from nnet3.asr.vosk_json import SpokenText
from nnet3.asr.without_graph import greedy_labels, phone_loop

__all__ = [
    "AcousticStream",
    "BeamSearch",
    "DecodingGraph",
    "Endpointing",
    "FeatureStream",
    "FrontModel",
    "IvectorModel",
    "KaldiRecognizer",
    "Model",
    "ModelFolder",
    "OnlineIvectors",
    "Recognizer",
    "SearchGraph",
    "SetLogLevel",
    "SilenceWeighting",
    "SpeakerState",
    "SpokenText",
    "accept_pieces",
    "greedy_labels",
    "phone_loop",
]
