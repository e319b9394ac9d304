"""Phones of digits, their HMMs, and the graphs of all that may be said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnet3.base.kaldi_io.fst_file import save_fst
from nnet3.chain import DenominatorGraph
from nnet3.model.hmm.topology import NO_PDF, HmmTopology, TopologyEntry, TopologyState
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.hmm.tree import Branch, ContextDependency, Leaf, make_transition_model
from nnet3.options import PhoneLmOptions
from nnet3.training.chain.graphs.denominator_fst import make_denominator_fst
from nnet3.training.chain.graphs.normalization import make_normalization_fst
from nnet3.training.chain.graphs.phone_lm import estimate_phone_lm

PHONES_OF_DIGIT = 3
NUM_PHONES = 10 * PHONES_OF_DIGIT
NUM_PDFS = 2 * NUM_PHONES
_PDF_CLASS, _PHONE = -1, 0  # what a tree can ask for
_ORDER = 3  # of the phone language model: within a digit the next phone is certain


def phones_of(digits: list[int]) -> list[int]:
    """Each digit has phones of its own, from 1, in order: its beginning, middle and end."""
    return [PHONES_OF_DIGIT * digit + part + 1 for digit in digits for part in range(PHONES_OF_DIGIT)]


@dataclass(frozen=True, eq=False)
class Hmms:
    """A tree without context, and the HMMs of chain models: a frame of one pdf, then any number of another one."""

    tree: ContextDependency
    model: TransitionModel


def make_hmms() -> Hmms:
    """Phone p has the pdfs 2 p - 2, where it begins, and 2 p - 1, where it goes on."""
    leaves = [Branch(_PDF_CLASS, (Leaf(2 * p), Leaf(2 * p + 1))) for p in range(NUM_PHONES)]
    tree = ContextDependency(1, 0, Branch(_PHONE, (Leaf(None), *leaves)))
    states = TopologyState(0, 1, ((0, 0.5), (1, 0.5))), TopologyState(NO_PDF, NO_PDF, ())
    entry_of_phone = np.append(-1, np.zeros(NUM_PHONES, np.int32)).astype(np.int32)
    topology = HmmTopology((TopologyEntry(states),), entry_of_phone)
    return Hmms(tree, make_transition_model(tree, topology))


def write_graphs(strings: list[list[int]], hmms: Hmms, folder: Path) -> None:
    """`phone_lm.fst`, `den.fst` and `normalization.fst` from what was said in the strings to train on."""
    phone_lm = estimate_phone_lm(map(phones_of, strings), PhoneLmOptions(_ORDER, _ORDER, 0))
    denominator = make_denominator_fst(hmms.tree, hmms.model, phone_lm)
    initial = DenominatorGraph.from_fst(denominator, NUM_PDFS).initial
    save_fst(phone_lm, str(folder / "phone_lm.fst"))
    save_fst(denominator, str(folder / "den.fst"))
    save_fst(make_normalization_fst(denominator, initial), str(folder / "normalization.fst"))
