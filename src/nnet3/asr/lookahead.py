"""Look-ahead graphs: what is said of transition-ids, without the costs that a language model gives to words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nnet3.asr.arrays import Integers
from nnet3.asr.words_ahead import ReachedWords
from nnet3.kaldi_io.fst import Fst
from nnet3.kaldi_io.fst_const import LabelReach


@dataclass(frozen=True, eq=False)
class LookaheadGraph:
    """HCLr: transition-ids in, words out, with the words that each state can come to next; `disambiguation` symbols are
    input labels that take no row."""

    fst: Fst
    reach: LabelReach
    disambiguation: Integers

    @cached_property
    def reached(self) -> ReachedWords:
        """The words that each state can come to next."""
        return ReachedWords(self.reach)

    @cached_property
    def input_labels(self) -> npt.NDArray[np.int32]:
        """The input labels with 0 in the place of disambiguation symbols, (arcs,)."""
        labels = self.fst.ilabel
        return np.where(np.isin(labels, self.disambiguation), 0, labels).astype(np.int32)
