"""Makes training graphs: all sequences of transition-ids that say a transcript (Kaldi: compile-train-graphs)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike

from nnet3.chain.graphs.fst_changes import sorted_by_label
from nnet3.chain.graphs.hmm_graph import graph_of_phones
from nnet3.chain.graphs.openfst import OpenFst, need_openfst
from nnet3.chain.graphs.phone_hmms import PhoneHmms
from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst
from nnet3.options import TrainingGraphOptions


class TrainingGraphs:
    """Makes the graph of one transcript after the other.

    `lexicon` leads from phones to words; `disambiguation` are labels of it that are no phones, and that graphs do not
    have.
    """

    def __init__(
        self,
        hmms: PhoneHmms,
        lexicon: Fst,
        options: TrainingGraphOptions | None = None,
        disambiguation: Collection[int] = (),
    ):
        need_openfst("making training graphs")
        self.hmms, self.options = hmms, options or TrainingGraphOptions()
        self._lexicon, self._disambiguation = OpenFst.of(lexicon), sorted(disambiguation)
        self._words = np.unique(lexicon.olabel)

    def make(self, words: ArrayLike) -> Fst:
        """Returns the graph of words (n,), from transition-ids to words.

        Raises TrainingError for a word that the lexicon does not have.
        """
        labels = np.asarray(words, np.int32).reshape(-1)
        unknown = labels[~np.isin(labels, self._words) | (labels == 0)]
        if len(unknown):
            raise TrainingError(f"the lexicon has no word {unknown[0]}")
        states = np.arange(len(labels) + 1)
        final = np.full(len(states), np.inf)
        final[-1] = 0.0
        return self._of_sorted(Fst.from_arcs(0, final, states[:-1], states[1:], labels))

    def make_of(self, said: Fst) -> Fst:
        """Returns the graph of all sequences of words that an acceptor accepts, with its costs.

        Raises TrainingError where it has labels on its output that differ from those on its input, or if the lexicon
        has none of the sequences.
        """
        if not said.is_acceptor:
            raise TrainingError("what is said must be an acceptor of words, with equal labels on input and output")
        return self._of_sorted(sorted_by_label(said))

    def _of_sorted(self, said: Fst) -> Fst:
        phones = self._lexicon.composed(OpenFst.of(said))
        if not phones.has_states:
            raise TrainingError("the lexicon has no path for the words")
        return graph_of_phones(phones, self.hmms, self.options, self._disambiguation)
