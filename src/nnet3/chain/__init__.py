"""Sequence training with lattice-free MMI ("chain" models)."""

from nnet3.chain.chain_loss import chain_loss as chain_loss
from nnet3.chain.denominator import Denominator as Denominator
from nnet3.chain.denominator_graph import DenominatorGraph as DenominatorGraph
from nnet3.chain.example import (
    CHAIN_EXAMPLES as CHAIN_EXAMPLES,
    ChainExample as ChainExample,
    chain_minibatch as chain_minibatch,
)
from nnet3.chain.objective import ChainObjective as ChainObjective, ChainValue as ChainValue, chain_value as chain_value
from nnet3.chain.supervision import (
    ChainTarget as ChainTarget,
    Supervision as Supervision,
    merge_supervisions as merge_supervisions,
)
from nnet3.kaldi_io.fst import Fst as Fst
from nnet3.kaldi_io.fst_file import load_fst as load_fst
from nnet3.options import ChainOptions as ChainOptions
