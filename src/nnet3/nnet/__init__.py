"""Networks: Nnet, acoustic models, model files, conversion, pictures."""

from nnet3.nnet.acoustic_model import AcousticModel as AcousticModel
from nnet3.nnet.load import load as load, load_nnet as load_nnet, load_transition_model as load_transition_model
from nnet3.nnet.network import Nnet as Nnet
