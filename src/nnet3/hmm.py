"""Hidden Markov models: topologies, transition models, trees of context-dependent phones."""

from nnet3.model.hmm.topology import HmmTopology as HmmTopology
from nnet3.model.hmm.transition_model import TransitionModel as TransitionModel
