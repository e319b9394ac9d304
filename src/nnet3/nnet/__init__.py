"""Networks: Nnet, acoustic models, model files, conversion, pictures."""

from nnet3.nnet.acoustic_model import AcousticModel, device_of, network_of
from nnet3.nnet.load import load, load_nnet, load_transition_model
from nnet3.nnet.network import Nnet
