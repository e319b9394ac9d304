# The public names of nnet3.asr, and where each lives.
from .acoustic_stream import AcousticStream as AcousticStream, accept_pieces as accept_pieces
from .beam_search import BeamSearch as BeamSearch
from .decoding import DecodingGraph as DecodingGraph
from .endpoints import Endpointing as Endpointing
from .features import FeatureStream as FeatureStream
from .ivectors import IvectorModel as IvectorModel, OnlineIvectors as OnlineIvectors, SpeakerState as SpeakerState
from .model_folder import FrontModel as FrontModel, ModelFolder as ModelFolder
from .recognizer import (
    KaldiRecognizer as KaldiRecognizer,
    Model as Model,
    Recognizer as Recognizer,
    SetLogLevel as SetLogLevel,
)
from .search_graph import SearchGraph as SearchGraph
from .silence import SilenceWeighting as SilenceWeighting
from .vosk_json import SpokenText as SpokenText
from .without_graph import greedy_labels as greedy_labels, phone_loop as phone_loop
