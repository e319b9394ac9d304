"""SpeechAligner: the network's inputs for an utterance, made as in the recognizer, and the answers expected."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nnet3.base.options.alignment import AlignmentOptions
from nnet3.base.options.tuning import TuningOptions
from nnet3.base.options.utterances import UtteranceOptions
from nnet3.errors import ExecutionError
from nnet3.speech.asr.aligning import Transcript, best_alignment
from nnet3.speech.asr.recognizer import Model
from nnet3.speech.features.features import FeatureStream, OnlineCmvn
from nnet3.speech.features.silence import SilenceWeighting
from nnet3.speech.search.alignment import Aligner
from nnet3.speech.tuning.spoken_graphs import SpokenGraphs

Rows = npt.NDArray[np.float32]
_ROWS_PER_CHUNK = 20  # of scores that share an ivector


@dataclass(frozen=True, eq=False)
class Spoken:
    """An utterance: samples (n,) in the scale of 16 bits, and the words of its transcript."""

    key: str
    samples: Rows
    rate: float
    words: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


@dataclass(frozen=True, eq=False)
class AlignedSpeech:
    """Inputs of the network, frames (frames, dim) and ivectors at intervals (ivectors, dim), and the best path of the
    transcript: transition_ids (rows,)."""

    features: Rows
    ivectors: Rows | None
    transition_ids: npt.NDArray[np.int32]


class SpeechAligner:
    """Aligns utterances with their transcripts, one by one, by the recognizer's own network and graph."""

    def __init__(self, model: Model, graphs: SpokenGraphs, options: TuningOptions):
        self._front, self._graphs = model.front, graphs
        self._scale = model.front.decoding.acoustic_scale
        search = AlignmentOptions(
            beam=options.beam,
            retry_beam=options.retry_beam,
            transition_scale=0.0,  # the graph has these costs
            self_loop_scale=0.0,
            acoustic_scale=self._scale,
        )
        self._aligner = Aligner(model.transition_model, search)
        weighting = model.front.silence_weighting
        self._silence: SilenceWeighting | None = None
        if model.front.ivectors is not None and weighting.is_active:
            factor = model.front.decoding.frame_subsampling_factor
            self._silence = SilenceWeighting(
                *(model.transition_model, weighting.silence_phones, factor),
                silence_weight=weighting.silence_weight,
                max_state_duration=weighting.max_state_duration,
            )

    def align(self, spoken: Spoken) -> AlignedSpeech:
        """Returns inputs and alignment of an utterance. Raises Nnet3Error if no alignment is found.

        Every utterance is a stream of its own: the knowledge of the speaker begins anew, as in a recognizer.
        """
        front, graph = self._front, self._graphs.make(spoken.words)
        rows = FeatureStream(front.features, spoken.rate).accept(spoken.samples, last=True)
        if not len(rows):
            raise ExecutionError(f"{spoken.seconds:g} s are too short for a frame")
        features = self._normalised(rows)
        ivectors = None if front.ivectors is None else front.ivectors.compute(rows)[0]
        ids = best_alignment(self._aligner, Transcript(graph), self._scores(features, ivectors)).transition_ids
        if front.ivectors is not None and self._silence is not None:
            weights = self._silence.of_path(ids)[: len(rows)]
            ivectors = front.ivectors.compute(rows, weights=weights.astype(np.float32))[0]
        return AlignedSpeech(features, ivectors, ids)

    def _normalised(self, rows: Rows) -> Rows:
        if self._front.cmvn is None:
            return rows
        cmvn = OnlineCmvn(*self._front.cmvn)
        cmvn.accept(rows)
        return np.asarray(cmvn.at(np.arange(len(rows))), np.float32)

    def _scores(self, features: Rows, ivectors: Rows | None) -> Rows:
        front = self._front
        factor = front.decoding.frame_subsampling_factor
        chunks = UtteranceOptions(frame_subsampling_factor=factor)
        if front.ivectors is not None:
            period = front.ivectors.options.ivector_period
            chunks = replace(chunks, online_ivector_period=period, frames_per_chunk=_ROWS_PER_CHUNK * factor)
        use_priors = len(front.acoustic_model.priors) > 0
        rows = front.acoustic_model.compute(features, None, ivectors, use_priors, **chunks.values())
        return (rows.float() * self._scale).cpu().numpy()
