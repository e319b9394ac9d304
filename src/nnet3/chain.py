"""Sequence training with lattice-free MMI ("chain" models)."""

from nnet3.base.kaldi_io.fst import Fst as Fst
from nnet3.base.kaldi_io.fst_file import load_fst as load_fst
from nnet3.base.options.chain import ChainOptions as ChainOptions
from nnet3.training.chain.chain_loss import chain_loss as chain_loss
from nnet3.training.chain.denominator import Denominator as Denominator
from nnet3.training.chain.denominator_graph import DenominatorGraph as DenominatorGraph
from nnet3.training.chain.example import (
    CHAIN_EXAMPLES as CHAIN_EXAMPLES,
    ChainExample as ChainExample,
    chain_minibatch as chain_minibatch,
)
from nnet3.training.chain.objective import (
    ChainObjective as ChainObjective,
    ChainValue as ChainValue,
    chain_value as chain_value,
)
from nnet3.training.chain.supervision import (
    ChainTarget as ChainTarget,
    Supervision as Supervision,
    merge_supervisions as merge_supervisions,
)
