from nnet3.speech.asr.model_rescoring import Rescoring as Rescoring
from nnet3.speech.asr.pitch_settings import read_pitch_settings as read_pitch_settings
from nnet3.speech.asr.speakers import SpeakerStream as SpeakerStream, SpkModel as SpkModel
