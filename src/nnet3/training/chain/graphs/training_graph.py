"""Training graphs and decoding graphs: graphs of phones, with HMMs in the phones' place."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.options.alignment import TrainingGraphOptions
from nnet3.errors import TrainingError
from nnet3.training.chain.graphs.denominator_fst import pushed
from nnet3.training.chain.graphs.expansion import with_hmms, with_self_loops, with_self_loops_first
from nnet3.training.chain.graphs.fst_changes import sorted_by_label, trimmed
from nnet3.training.chain.graphs.openfst import DELTA, OpenFst, need_openfst
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms


def graph_of_phones(
    phones: OpenFst, hmms: PhoneHmms, options: TrainingGraphOptions, disambiguation: Collection[int] = ()
) -> Fst:
    """Returns a transducer from transition-ids to words, deterministic and minimal but for its self-loops.

    `phones` is a transducer from phones to words. `disambiguation` are its input labels that are no phones, absent from
    the result.
    """
    tree, tables = hmms.tree, hmms.transitions
    in_context, windows = phones.in_context(sorted(disambiguation), tree.context_width, tree.central_position)
    labelled, table = _by_window(in_context.fst(), windows, tree.context_width)
    expanded = with_hmms(labelled, table, hmms, options.transition_scale)
    small = _without_others(OpenFst.of(expanded).determinized_in_log().fst(), tables.num_ids)
    small = OpenFst.of(small).minimized_as_it_is(DELTA).fst()
    add = with_self_loops if options.reorder else with_self_loops_first
    return trimmed(add(small, tables, options.self_loop_scale))


def _by_window(fst: Fst, windows: list[list[int]], width: int) -> tuple[Fst, np.ndarray]:
    """Returns the FST with label k + 1 for row k of a table of windows, (windows, width), and larger ones for labels of
    disambiguation; and the table."""
    is_window = np.array([len(window) == width and window != [0] and min(window) >= 0 for window in windows])
    is_window[0] = False
    others = ~is_window
    others[0] = False
    count = int(is_window.sum())
    label = np.zeros(len(windows), np.int32)
    label[is_window] = np.arange(1, count + 1)
    label[others] = count + np.arange(1, int(others.sum()) + 1)
    table = np.array([window for window, known in zip(windows, is_window, strict=True) if known], np.int32)
    relabelled = Fst(fst.start, fst.final, fst.offsets, label[fst.ilabel], fst.olabel, fst.cost, fst.dst)
    return relabelled, table.reshape(count, width)


def _without_others(fst: Fst, num_ids: int) -> Fst:
    """Makes epsilons of labels that are no transition-ids."""
    labels = np.where(fst.ilabel > num_ids, 0, fst.ilabel).astype(np.int32)
    return Fst(fst.start, fst.final, fst.offsets, labels, fst.olabel, fst.cost, fst.dst)


class TrainingGraphs:
    """Makes the graph of transcript after transcript.

    `lexicon` leads from phones to words; `disambiguation` are labels of the lexicon that are no phones, absent from
    graphs.
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
        return self._of(Fst.from_arcs(0, final, states[:-1], states[1:], labels))

    def make_of(self, said: Fst) -> Fst:
        """Returns the graph of all sequences of words that an acceptor accepts, with its costs.

        Raises TrainingError where labels on the output differ from labels on the input, or if the lexicon
        has none of the sequences.
        """
        if not said.is_acceptor:
            raise TrainingError("what is said must be an acceptor of words, with equal labels on input and output")
        return self._of(said)

    def _of(self, said: Fst) -> Fst:
        phones = self._lexicon.composed(OpenFst.of(said))
        if not phones.has_states:
            raise TrainingError("the lexicon has no path for the words")
        return graph_of_phones(phones, self.hmms, self.options, self._disambiguation)


def lexicon_and_grammar(lexicon: Fst, grammar: Fst) -> Fst:
    """Returns LG, from phones to words, deterministic, minimal, with costs as early as they can be.

    `lexicon` leads from phones to words; symbols of disambiguation must tell equal pronunciations apart. `grammar` is
    one of words. Raises TrainingError if the lexicon has no word of the grammar.
    """
    need_openfst("making a decoding graph")
    together = OpenFst.of(lexicon).composed(OpenFst.of(grammar))
    if not together.has_states:
        raise TrainingError(
            "the lexicon and the grammar have no sequence of words in common: are labels of one words.txt?"
        )
    small = together.determinized_in_log().minimized_as_it_is(DELTA)
    return sorted_by_label(pushed(small.fst()))


def make_decoding_graph(
    hmms: PhoneHmms, lexicon: Fst, grammar: Fst, disambiguation: Collection[int], options: TrainingGraphOptions
) -> Fst:
    """Returns HCLG. `disambiguation` are the phones of the lexicon that are none."""
    phones = OpenFst.of(lexicon_and_grammar(lexicon, grammar))
    graph = graph_of_phones(phones, hmms, options, disambiguation)
    if graph.num_states == 0:
        raise TrainingError("the decoding graph has no path to an end")
    return graph
