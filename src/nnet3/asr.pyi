# The public names of nnet3.asr, and where each lives.
from nnet3.base.options.rnnlm import RnnlmOptions as RnnlmOptions
from nnet3.speech.asr import decoding as decoding
from nnet3.speech.asr.acoustic_stream import AcousticStream as AcousticStream, accept_pieces as accept_pieces
from nnet3.speech.asr.batch_recognizer import BatchModel as BatchModel, BatchRecognizer as BatchRecognizer
from nnet3.speech.asr.decoding import DecodingGraph as DecodingGraph
from nnet3.speech.asr.model_folder import FrontModel as FrontModel, ModelFolder as ModelFolder
from nnet3.speech.asr.model_search import (
    MODEL_DIRS as MODEL_DIRS,
    MODEL_LIST_URL as MODEL_LIST_URL,
    MODEL_PRE_URL as MODEL_PRE_URL,
    list_languages as list_languages,
    list_models as list_models,
    model_directory as model_directory,
)
from nnet3.speech.asr.recognizer import (
    KaldiRecognizer as KaldiRecognizer,
    Model as Model,
    Recognizer as Recognizer,
)
from nnet3.speech.asr.speakers import SpkModel as SpkModel
from nnet3.speech.asr.text_processor import Processor as Processor
from nnet3.speech.asr.vosk_json import SpokenText as SpokenText
from nnet3.speech.asr.vosk_process import (
    GpuInit as GpuInit,
    GpuThreadInit as GpuThreadInit,
    SetLogLevel as SetLogLevel,
)
from nnet3.speech.asr.without_graph import greedy_labels as greedy_labels, phone_loop as phone_loop
from nnet3.speech.features.features import FeatureStream as FeatureStream
from nnet3.speech.features.ivectors import (
    IvectorModel as IvectorModel,
    OnlineIvectors as OnlineIvectors,
    SpeakerState as SpeakerState,
)
from nnet3.speech.features.silence import SilenceWeighting as SilenceWeighting
from nnet3.speech.language_models import language_model as language_model
from nnet3.speech.language_models.const_arpa import ConstArpa as ConstArpa
from nnet3.speech.language_models.const_arpa_acceptor import ConstArpaAcceptor as ConstArpaAcceptor
from nnet3.speech.language_models.const_arpa_file import load_const_arpa as load_const_arpa
from nnet3.speech.language_models.rnnlm import Rnnlm as Rnnlm
from nnet3.speech.language_models.rnnlm_acceptor import RnnlmAcceptor as RnnlmAcceptor
from nnet3.speech.search.beam_search import BeamSearch as BeamSearch
from nnet3.speech.search.endpoints import EndpointerMode as EndpointerMode, Endpointing as Endpointing
from nnet3.speech.search.search_graph import SearchGraph as SearchGraph
