"""IncrementalSearch: the search of an utterance, with a lattice that grows while rows come, as in Kaldi."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.symbols import SymbolTable
from nnet3.base.options.recognizer import DecodingOptions
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.asr.decoding import DecodingGraph, Segment
from nnet3.speech.lattices.lattice_path import best_paths
from nnet3.speech.lattices.word_lattice import PhoneLabels
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.search_graph import SearchGraph
from nnet3.speech.search.utterance_decoder import DecodedUtterance, nothing_found


def graph_of_labels(search: SearchGraph, model: TransitionModel) -> DecodingGraph:
    """Returns a graph whose words have no names."""
    return DecodingGraph(search, SymbolTable({}), None, PhoneLabels(model))


class IncrementalSearch:
    """A segment as the search of an utterance. The lattice's acoustic costs are not scaled in the end."""

    def __init__(self, graph: DecodingGraph, options: DecodingOptions):
        self._segment = Segment(graph, options)

    @property
    def search(self) -> BeamSearch:
        """The search of the segment."""
        return self._segment.search

    def accept(self, scores: npt.NDArray[np.float32]) -> None:
        """Takes scores, (rows, pdfs), scaled log-likelihoods."""
        self._segment.accept(scores)

    def found(self) -> DecodedUtterance:
        """Returns the result at the end of the search; a lattice without states if nothing fits."""
        segment = self._segment
        found = segment.found()
        if found is None:
            return nothing_found()
        (path,) = best_paths(found.lattice, 1)
        lattice = found.lattice.with_costs(acoustic=(0.0, 1 / segment.options.acoustic_scale))
        ended = segment.search.can_end
        return DecodedUtterance(path.words, path.transition_ids, path.cost, lattice, ended, segment.notices)
