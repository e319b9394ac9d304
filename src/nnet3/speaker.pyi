# The public names of nnet3.speaker, and where each lives.
from nnet3.speech.speaker.clustering import clusters_of as clusters_of
from nnet3.speech.speaker.diarizing import diarize as diarize, scores_of_pairs as scores_of_pairs
from nnet3.speech.speaker.error_rates import detection_cost as detection_cost, equal_error_rate as equal_error_rate
from nnet3.speech.speaker.plda import Plda as Plda
from nnet3.speech.speaker.plda_training import adapted_plda as adapted_plda, estimate_plda as estimate_plda
from nnet3.speech.speaker.speaker_model import SpeakerModel as SpeakerModel
from nnet3.speech.speaker.speaker_stats import (
    SpeakerStats as SpeakerStats,
    discriminant_transform as discriminant_transform,
    transformed as transformed,
    with_length as with_length,
)
from nnet3.speech.speaker.turns import Turn as Turn, rttm_lines as rttm_lines
from nnet3.speech.speaker.verifier import Verifier as Verifier
from nnet3.speech.speaker.voice_activity import selected_frames as selected_frames, voiced_frames as voiced_frames
