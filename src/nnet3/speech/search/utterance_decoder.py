"""Utterances as Kaldi's decoders write them: words, an alignment and a lattice, from scores and a graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.lattice import Lattice, Strings, no_strings
from nnet3.base.kaldi_io.lattice_factoring import factored
from nnet3.base.options.recognizer import LatticeOptions, SearchOptions
from nnet3.errors import ExecutionError
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.lattices.raw_lattice import RawLattice
from nnet3.speech.lattices.word_lattice import PhoneLabels, word_lattice
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.growing_graph import GrowingGraph
from nnet3.speech.search.search_graph import SearchGraph


@dataclass(frozen=True, eq=False)
class DecodedUtterance:
    """The best path and the lattice of an utterance.

    words: (words,), transition_ids: (rows,), cost: of graph and scaled scores. The lattice's acoustic costs are not
    scaled. `has_ended`: the path ends where the graph does. `notices` tells what was narrowed for want of memory.
    """

    words: Integers
    transition_ids: Integers
    cost: float
    lattice: Lattice
    has_ended: bool
    notices: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self.transition_ids)


@dataclass(frozen=True)
class UtteranceDecoder:
    """Searches whole utterances. `acoustic_scale`: the factor already in the scores.

    `prune_at_end`: if false, lattices are determinized of all that the search has not removed at its last interval.
    """

    model: TransitionModel
    search: SearchOptions
    lattices: LatticeOptions
    acoustic_scale: float
    allow_partial: bool = False
    prune_at_end: bool = True

    def decode(self, graph: SearchGraph | GrowingGraph, scores: npt.NDArray[np.float32]) -> DecodedUtterance:
        """Searches scores (rows, pdfs), scaled log-likelihoods; returns words and lattice. Raises as `found` does."""
        search = self.begin(graph)
        search.advance(scores)
        return self.found(search)

    def begin(self, graph: SearchGraph | GrowingGraph) -> BeamSearch:
        """Begins to search an utterance. Raises ModelFormatError if the graph lies in a file that was written to."""
        return BeamSearch(graph.begin(), self.search)

    def found(self, search: BeamSearch) -> DecodedUtterance:
        """Returns what a search has found at its end. Raises ExecutionError if nothing fits, or if no path comes to an
        end of the graph, unless `allow_partial`."""
        path = search.best_path(use_final=True)
        if path is None:
            raise ExecutionError("no path through the graph fits it: give a larger --beam")
        if not search.can_end and not self.allow_partial:
            raise ExecutionError(
                "no path reached a final state of the graph: give a larger --beam, or --allow-partial=true for what "
                "there is"
            )
        ended, raw = search.can_end, search.lattice(prune=self.prune_at_end)
        assert raw is not None, "there is a path"
        lattice, notices = self._lattice(raw)
        return DecodedUtterance(path.words, path.transition_ids, path.cost, lattice, ended, [*search.notices, *notices])

    def _lattice(self, raw: RawLattice) -> tuple[Lattice, list[str]]:
        options, scale = self.lattices, 1 / self.acoustic_scale if self.acoustic_scale else 1.0
        if not options.determinize_lattice:
            return _plain(raw).with_costs(acoustic=(0.0, scale)), []
        if not (options.word_determinize or options.phone_determinize):
            return factored(_plain(raw)).with_costs(acoustic=(0.0, scale)), []
        beam, most = self.search.lattice_beam, self.search.max_mem or np.inf
        phones = self._phones if options.phone_determinize else None
        found = word_lattice(raw, beam, most, options.minimize, phones, phones_alone=not options.word_determinize)
        return found.lattice.with_costs(acoustic=(0.0, scale)), found.notices(beam)

    @cached_property
    def _phones(self) -> PhoneLabels:
        return PhoneLabels(self.model)


class UtteranceSearch:
    """The search of an utterance while scores come. Without any path the lattice has no states."""

    def __init__(self, decoder: UtteranceDecoder, graph: SearchGraph | GrowingGraph):
        self._decoder, self.search = decoder, decoder.begin(graph)

    def accept(self, scores: npt.NDArray[np.float32]) -> None:
        """Takes scores, (rows, pdfs), scaled log-likelihoods."""
        self.search.advance(scores)

    def found(self) -> DecodedUtterance:
        """Returns what the search has found. Raises as the decoder's `found` does, but not without any path."""
        return self._decoder.found(self.search) if len(self.search.tokens.last.state) else nothing_found()


def nothing_found() -> DecodedUtterance:
    """Returns the result for an utterance without any path."""
    none, costs, fst = no_strings(0), np.zeros(0, np.float32), Fst.empty()
    nothing = np.zeros(0, np.int64)
    return DecodedUtterance(nothing, nothing, 0.0, Lattice(fst, costs, costs, none, none), has_ended=False)


def _plain(raw: RawLattice) -> Lattice:
    """Returns a raw lattice as a plain one, arc by arc."""
    fst = Fst.from_arcs(0, raw.final_cost, raw.src, raw.dst, raw.word, raw.graph_cost)
    emits = raw.transition_id > 0
    ids, none = Strings.of(emits, raw.transition_id[emits]), no_strings(fst.num_states)
    no_costs = np.zeros(fst.num_states, np.float32)
    return Lattice(fst, raw.acoustic_cost.astype(np.float32), no_costs, ids, none, is_plain=True)
