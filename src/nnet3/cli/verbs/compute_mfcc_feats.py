from nnet3.cli.audio_verbs import audio_features_verb
from nnet3.options import MfccOptions

command = audio_features_verb("mfcc", "mel frequency cepstral coefficients", MfccOptions)
