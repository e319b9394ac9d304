"""Numerator graphs of utterances without alignments: training graphs of pdfs, weighted by a normalization graph."""

from __future__ import annotations

from nnet3.base.kaldi_io.fst import Fst
from nnet3.errors import TrainingError
from nnet3.training.chain.graphs.fst_changes import with_labels
from nnet3.training.chain.graphs.openfst import OpenFst
from nnet3.training.chain.graphs.phone_hmms import TransitionTables


def numerator_fst(graph: Fst, transitions: TransitionTables, normalization: OpenFst) -> Fst:
    """Returns a training graph as an acceptor of pdf + 1, composed with a normalization graph (facts/rescoring.md 12).

    Empty if the normalization graph has none of its sequences. Raises TrainingError for an epsilon of the input that
    cannot be removed because its arc has a word, and for a label that is no transition-id.
    """
    if graph.ilabel.max(initial=0) > transitions.num_ids:
        raise TrainingError(f"it has transition-id {graph.ilabel.max()}, but the model has {transitions.num_ids}")
    emitting = OpenFst.of(graph).without_epsilons().fst()
    if (emitting.ilabel == 0).any():
        raise TrainingError("it has words on arcs without a transition-id")
    labelled = with_labels(emitting, transitions.pdf_of_id[emitting.ilabel] + 1)
    return OpenFst.of(labelled).composed(normalization).fst() if emitting.num_states else Fst.empty()
