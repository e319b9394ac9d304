from nnet3.cli.audio_verbs import audio_features_verb
from nnet3.options import FbankOptions

command = audio_features_verb("fbank", "energies of mel bins", FbankOptions)
