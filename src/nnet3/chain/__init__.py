"""Sequence training with lattice-free MMI ("chain" models)."""

from nnet3.chain.chain_loss import chain_loss
from nnet3.chain.denominator import Denominator
from nnet3.chain.denominator_graph import DenominatorGraph
from nnet3.chain.example import CHAIN_EXAMPLES, ChainExample, chain_minibatch
from nnet3.chain.objective import ChainObjective, ChainValue, chain_value
from nnet3.chain.supervision import ChainTarget, Supervision, merge_supervisions
from nnet3.kaldi_io.fst import Fst
from nnet3.kaldi_io.fst_file import load_fst
from nnet3.options import ChainOptions
