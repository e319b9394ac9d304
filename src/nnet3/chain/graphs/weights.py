"""Weights for supervision, so that numerators are parts of the denominator."""

from __future__ import annotations

from nnet3.chain.graphs.fst_changes import numbered_breadth_first
from nnet3.chain.graphs.normalization import scaled
from nnet3.chain.graphs.openfst import OpenFst, need_openfst
from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst
from nnet3.kaldi_io.fst_reach import arcs_on_cycles

MOST_STATES = 200_000  # that a determinized supervision may take


class NormalizationWeights:
    """Gives label sequences the costs of their best paths in a normalization graph, multiplied by `scale`."""

    def __init__(self, normalization: Fst, scale: float = 1.0):
        need_openfst("weighting supervision")
        if (normalization.ilabel == 0).any() or not normalization.is_acceptor:
            raise TrainingError("a normalization graph must be an acceptor without epsilons")
        self._normalization = OpenFst.of(scaled(normalization, scale))

    def weighted(self, fst: Fst) -> Fst | None:
        """A supervision whose paths all have the same length: deterministic and minimal, numbered by time.

        None if the normalization graph has none of its sequences, or if it would take too many states. TrainingError if
        it has cycles.
        """
        if arcs_on_cycles(fst).any():
            raise TrainingError("the FST of a supervision that is not end to end must have no cycles")
        compact = determinized_and_minimized(OpenFst.of(fst).without_epsilons())
        if compact is None:
            return None
        together = compact.composed(self._normalization)
        result = determinized_and_minimized(together) if together.has_states else None
        return None if result is None else numbered_breadth_first(result.fst())

    def weighted_end_to_end(self, fst: Fst) -> Fst | None:
        """The same of one that may have cycles; it is not made compact."""
        together = OpenFst.of(fst).without_epsilons().composed(self._normalization)
        return numbered_breadth_first(together.fst()) if together.has_states else None


def determinized_and_minimized(fst: OpenFst) -> OpenFst | None:
    """None if that takes more than MOST_STATES."""
    result = fst.determinized(MOST_STATES)
    return None if result is None else result.minimized()
