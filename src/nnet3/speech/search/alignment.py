"""Aligns utterances with training graphs: the best path, by the search of recognizers (Kaldi: nnet3-align-compiled)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.options.alignment import AlignmentOptions
from nnet3.base.options.recognizer import DecodingOptions
from nnet3.errors import ModelFormatError
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.search_graph import SearchGraph
from nnet3.training.chain.graphs.phone_hmms import TransitionTables

_MIN_ACTIVE = 20  # tokens that the beam leaves, however narrow it is
_LATTICE_BEAM = 1e-3  # the lattice serves nothing: only best paths are kept
_LARGEST_COST = 1e10


@dataclass(frozen=True, eq=False)
class Alignment:
    """The best path through a training graph.

    transition_ids: (rows,) int32. acoustic: (rows,) scores of their pdfs, scaled. score: the log-likelihood of graph
    and scores together. words, word_rows: (words,), output labels, and how many rows were over when each was passed.
    """

    transition_ids: npt.NDArray[np.int32]
    acoustic: npt.NDArray[np.float32]
    score: float
    words: npt.NDArray[np.integer]
    word_rows: npt.NDArray[np.integer]


class Aligner:
    """Aligns one utterance after another by a transition model."""

    def __init__(self, model: TransitionModel, options: AlignmentOptions | None = None):
        self.options = options or AlignmentOptions()
        self.num_pdfs = model.num_pdfs
        self._tables = TransitionTables(model)
        self._log_probs = model.log_probs.astype(np.float64)

    def align(self, graph: Fst, scores: npt.NDArray[np.float32], beam: float) -> Alignment | None:
        """Returns the best path for scores (rows, pdfs), already scaled, with this beam; None if no path has ended.

        Raises ModelFormatError for a graph of another model, or without states; ExecutionError for too few columns.
        """
        if self.options.careful:
            graph = _going_on(graph)
        search_graph = SearchGraph(self._with_costs(graph), self._tables.pdf_of_id)
        options = DecodingOptions(beam=beam, min_active=_MIN_ACTIVE, lattice_beam=_LATTICE_BEAM)
        search = BeamSearch(search_graph, options, first_beam=np.inf)
        search.advance(scores)
        best = search.best_path(use_final=True) if search.can_end else None
        if best is None:
            return None
        ids = np.asarray(best.transition_ids, np.int32)
        acoustic = scores[np.arange(len(ids)), self._tables.pdf_of_id[ids]]
        return Alignment(ids, acoustic, -best.cost, best.words, best.word_rows)

    def _with_costs(self, graph: Fst) -> Fst:
        """Adds the costs of transitions, scaled as the options say."""
        tables, options, ids = self._tables, self.options, graph.ilabel
        if graph.num_arcs and ids.max() > tables.num_ids:
            raise ModelFormatError(
                f"the training graph has input label {ids.max()}, but the model has {tables.num_ids} transition-ids: "
                "does the graph belong to this model?"
            )
        leaving = np.minimum(tables.leaving_cost[tables.state_of_id[ids]], _LARGEST_COST)
        whole = -self._log_probs[ids]
        forward = options.self_loop_scale * leaving + options.transition_scale * (whole - leaving)
        cost = np.where(tables.is_self_loop[ids], options.self_loop_scale * whole, forward)
        added = graph.cost + np.where(ids == 0, 0.0, cost).astype(np.float32)
        return Fst(graph.start, graph.final, graph.offsets, ids, graph.olabel, added, graph.dst)


def _going_on(graph: Fst) -> Fst:
    """Returns the graph with a copy behind its ends; no path ends in the copy."""
    states, ends = graph.num_states, np.flatnonzero(graph.final < np.inf)
    none = np.zeros(len(ends), np.int32)
    return Fst.from_arcs(
        graph.start,
        np.concatenate([graph.final, np.full(states, np.inf, np.float32)]),
        np.concatenate([graph.src, graph.src + states, ends]),
        np.concatenate([graph.dst, graph.dst + states, np.full(len(ends), graph.start + states)]),
        np.concatenate([graph.ilabel, graph.ilabel, none]),
        np.concatenate([graph.cost, graph.cost, graph.final[ends]]),
        np.concatenate([graph.olabel, graph.olabel, none]),
    )
