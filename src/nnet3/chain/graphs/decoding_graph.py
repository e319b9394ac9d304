"""Makes decoding graphs, HCLG.fst: from transition-ids to words, by a lexicon and a grammar (Kaldi: mkgraph.sh)."""

from __future__ import annotations

from collections.abc import Collection

from nnet3.chain.graphs.denominator_fst import pushed
from nnet3.chain.graphs.fst_changes import sorted_by_label
from nnet3.chain.graphs.hmm_graph import graph_of_phones
from nnet3.chain.graphs.openfst import DELTA, OpenFst, need_openfst
from nnet3.chain.graphs.phone_hmms import PhoneHmms
from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst
from nnet3.options import TrainingGraphOptions


def lexicon_and_grammar(lexicon: Fst, grammar: Fst) -> Fst:
    """Returns LG, from phones to words, deterministic, minimal, with costs as early as they can be.

    `lexicon` leads from phones to words; symbols of disambiguation must tell equal pronunciations apart. `grammar` is
    one of words. Raises TrainingError if the lexicon has no word of the grammar.
    """
    need_openfst("making a decoding graph")
    together = OpenFst.of(lexicon).composed(OpenFst.of(sorted_by_label(grammar)))
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
