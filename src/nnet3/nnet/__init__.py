"""Networks: Nnet, acoustic models, model files, conversion, pictures."""

from nnet3.nnet.acoustic_model import (
    AcousticModel as AcousticModel,
    device_of as device_of,
    network_of as network_of,
)
from nnet3.nnet.load import load as load, load_nnet as load_nnet, load_transition_model as load_transition_model
from nnet3.nnet.network import Nnet as Nnet
