"""Supervision made of alignments: sequences of pdfs for LF-MMI, or the pdf of each row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nnet3.base.kaldi_io.fst_file import save_fst
from nnet3.base.options.chain import PhoneLmOptions, SupervisingOptions, Tolerances
from nnet3.base.options.examples import ChainMakingOptions, ChunkOptions, MakingOptions
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.nnet import AcousticModel
from nnet3.speech.tuning.allophones import allophone_hmms, allophones_of
from nnet3.speech.tuning.speech_aligner import AlignedSpeech
from nnet3.training.chain.denominator_graph import DenominatorGraph
from nnet3.training.chain.example import CHAIN_EXAMPLES
from nnet3.training.chain.graphs.denominator_fst import make_denominator_fst
from nnet3.training.chain.graphs.normalization import NormalizationWeights, make_normalization_fst
from nnet3.training.chain.graphs.phone_lm import estimate_phone_lm
from nnet3.training.chain.graphs.supervising import supervise
from nnet3.training.chain.graphs.timed_phones import phones_of_durations
from nnet3.training.chain.making import ChainExampleMaker, Utterance
from nnet3.training.examples.chunk_ios import alignment_matrix
from nnet3.training.examples.example import EXAMPLES, ExampleKind
from nnet3.training.examples.making import ExampleMaker

Alignment = np.ndarray  # of transition-ids, (rows,)
_DENOMINATOR, _CROSS_ENTROPY = "den.fst", "output-xent"
_LANGUAGE_MODEL = PhoneLmOptions(ngram_order=3, no_prune_ngram_order=2, num_extra_lm_states=2000)
_TOLERANCE = 2  # rows by which an allophone may come earlier or later


@dataclass(frozen=True)
class Cutting:
    """The lengths and contexts of chunks, the frames of an ivector, and the seed of what is drawn at random."""

    chunks: ChunkOptions
    ivector_period: int
    seed: int


class TuningSupervision(Protocol):
    """Makes examples of aligned utterances, once it has seen all alignments. `settings`: sections of a settings file
    besides the tables of examples."""

    kind: ExampleKind[Any]
    settings: dict[str, dict[str, Any]]

    def prepare(self, alignments: Iterable[Alignment]) -> None:
        """Makes what the objective needs of all utterances."""

    def examples(self, key: str, speech: AlignedSpeech) -> Sequence[tuple[str, Any]]:
        """Returns the examples of an utterance; none if it is too short. Raises TrainingError."""


class ChainSupervision:
    """Examples of LF-MMI. Its denominator graph is made of an n-gram of the allophones of all alignments."""

    kind: ExampleKind[Any] = CHAIN_EXAMPLES

    def __init__(self, model: AcousticModel, cutting: Cutting, folder: Path):
        self._model, self._cutting = model.transition_model, cutting
        self._hmms = allophone_hmms(self._model)
        self._denominator = folder / _DENOMINATOR
        factor = cutting.chunks.frame_subsampling_factor
        self.settings: dict[str, dict[str, Any]] = {
            "data": {"kind": "chain", "frame-shifts": factor},
            "objective": {"kind": "chain", "den-fst": str(self._denominator)},
        }
        if _CROSS_ENTROPY not in model.nnet.output_names:  # as in models that were prepared for recognizers alone
            self.settings["objective"]["xent-regularize"] = 0.0

    def prepare(self, alignments: Iterable[Alignment]) -> None:
        """Writes the denominator graph."""
        hmms = self._hmms
        spoken = [allophones_of(ids, self._model)[:, 0] for ids in alignments]
        denominator = make_denominator_fst(hmms.tree, hmms.model, estimate_phone_lm(spoken, _LANGUAGE_MODEL))
        initial = DenominatorGraph.from_fst(denominator, hmms.model.num_pdfs).initial
        save_fst(denominator, str(self._denominator))
        weights = NormalizationWeights(make_normalization_fst(denominator, initial))
        cutting = self._cutting
        options = ChainMakingOptions(cutting.chunks, cutting.ivector_period, seed=cutting.seed)
        self._maker = ChainExampleMaker(options, weights)

    def examples(self, key: str, speech: AlignedSpeech) -> Sequence[tuple[str, Any]]:
        timed = phones_of_durations(allophones_of(speech.transition_ids, self._model))
        supervision = supervise(timed, self._hmms, SupervisingOptions(Tolerances(_TOLERANCE, _TOLERANCE, 1)))
        return self._maker.make(Utterance(key, speech.features, speech.ivectors), supervision)


class FrameSupervision:
    """Examples of cross-entropy: the pdf of each row."""

    kind: ExampleKind[Any] = EXAMPLES

    def __init__(self, model: TransitionModel, cutting: Cutting):
        self._model = model
        self._maker = ExampleMaker(MakingOptions(cutting.chunks, cutting.ivector_period, seed=cutting.seed))
        self.settings: dict[str, dict[str, Any]] = {"data": {"kind": "frames"}, "objective": {"kind": "by-node"}}

    def prepare(self, alignments: Iterable[Alignment]) -> None:
        """Needs nothing of the alignments."""

    def examples(self, key: str, speech: AlignedSpeech) -> Sequence[tuple[str, Any]]:
        targets = alignment_matrix(self._model.pdf(speech.transition_ids), self._model.num_pdfs)
        return self._maker.make(key, speech.features, targets, speech.ivectors)
