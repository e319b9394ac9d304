"""Discriminative training on lattices: MMI, boosted MMI, sMBR, MPFE."""

from nnet3.base.kaldi_io.lattice import (
    Lattice as Lattice,
    open_lattice_table as open_lattice_table,
    read_lattice as read_lattice,
)
from nnet3.base.options.discriminative import (
    DiscriminativeMakingOptions as DiscriminativeMakingOptions,
    DiscriminativeOptions as DiscriminativeOptions,
)
from nnet3.training.chain.example import chain_minibatch as chain_minibatch
from nnet3.training.discriminative.criteria import LatticeCriterion as LatticeCriterion
from nnet3.training.discriminative.discriminative_loss import discriminative_loss as discriminative_loss
from nnet3.training.discriminative.lattice_example import (
    DISCRIMINATIVE_EXAMPLES as DISCRIMINATIVE_EXAMPLES,
    DiscriminativeExample as DiscriminativeExample,
)
from nnet3.training.discriminative.making import (
    DiscriminativeExampleMaker as DiscriminativeExampleMaker,
    LatticeUtterance as LatticeUtterance,
)
from nnet3.training.discriminative.objective import (
    DiscriminativeObjective as DiscriminativeObjective,
    DiscriminativeValue as DiscriminativeValue,
    discriminative_value as discriminative_value,
)
from nnet3.training.discriminative.supervision import (
    DiscriminativeSupervision as DiscriminativeSupervision,
    DiscriminativeTarget as DiscriminativeTarget,
    merge_supervisions as merge_supervisions,
)
from nnet3.training.discriminative.trainer import DiscriminativeTrainer as DiscriminativeTrainer
