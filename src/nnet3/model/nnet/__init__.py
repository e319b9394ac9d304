"""Networks: Nnet, acoustic models, model files, conversion, pictures."""

from nnet3.model.nnet.acoustic_model import AcousticModel, device_of, network_of
from nnet3.model.nnet.load import load, load_nnet, load_transition_model
from nnet3.model.nnet.network import Nnet
