"""Hidden Markov models: topologies, transition models, trees of context-dependent phones."""

from nnet3.hmm.topology import HmmTopology as HmmTopology
from nnet3.hmm.transition_model import TransitionModel as TransitionModel
