"""Networks: descriptors, nodes, Nnet, config and model files, context."""

from nnet3.nnet.acoustic_model import AcousticModel
from nnet3.nnet.average import average
from nnet3.nnet.collapse import CollapseOptions, collapse_model, prepare_for_test
from nnet3.nnet.descriptor import Descriptor
from nnet3.nnet.edits import apply_edits
from nnet3.nnet.hmm_topology import HmmTopology
from nnet3.nnet.load import load, load_nnet, load_transition_model
from nnet3.nnet.network import Nnet
from nnet3.nnet.normalize import parse_descriptor
from nnet3.nnet.transition_model import TransitionModel

__all__ = [
    "AcousticModel",
    "CollapseOptions",
    "Descriptor",
    "HmmTopology",
    "Nnet",
    "TransitionModel",
    "apply_edits",
    "average",
    "collapse_model",
    "load",
    "load_nnet",
    "load_transition_model",
    "parse_descriptor",
    "prepare_for_test",
]
