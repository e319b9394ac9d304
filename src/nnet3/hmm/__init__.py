"""Hidden Markov models: topologies, transition models, trees of context-dependent phones."""

from nnet3.hmm.topology import HmmTopology
from nnet3.hmm.transition_model import TransitionModel
