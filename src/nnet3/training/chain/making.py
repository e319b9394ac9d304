"""Makes chain examples from features and supervision (Kaldi: nnet3-chain-get-egs, -e2e-get-egs)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.general import GeneralMatrix, compressed
from nnet3.base.options.examples import WHOLE, ChainMakingOptions
from nnet3.errors import TrainingError
from nnet3.training.chain.example import ChainExample
from nnet3.training.chain.graphs.chunks import FrameCutter, random_pdfs, shortest_path, without_times
from nnet3.training.chain.graphs.fst_changes import numbered_breadth_first
from nnet3.training.chain.graphs.normalization import NormalizationWeights
from nnet3.training.chain.graphs.openfst import without_epsilons
from nnet3.training.chain.graphs.phone_hmms import TransitionTables
from nnet3.training.chain.supervision import ChainTarget, Supervision
from nnet3.training.examples.chunk_ios import check_ivectors, check_length, chunk_inputs, indexes
from nnet3.training.examples.chunks import Chunk, ChunkSplitter
from nnet3.training.examples.making import generator

_LOG = logging.getLogger("nnet3")
_OUTPUT = "output"
_MOST_OFF = 4  # frames by which an utterance may be longer or shorter than one of the lengths of end-to-end examples


@dataclass(frozen=True, eq=False)
class Utterance:
    """An utterance: features (frames, dim); ivectors (rows, dim), one every `online_ivector_period` frames;
    deriv_weights (output frames,)."""

    key: str
    features: GeneralMatrix
    ivectors: npt.NDArray[np.float32] | None = None
    deriv_weights: npt.NDArray[np.float32] | None = None


class ChainExampleMaker:
    """Makes the examples of utterance after utterance. `splitter` counts its cuts.

    With `weights` supervision is composed with the normalization graph. With `transitions` supervision must be of
    transition-ids, and the times inside chunks are left free.
    """

    def __init__(
        self,
        options: ChainMakingOptions,
        weights: NormalizationWeights | None = None,
        transitions: TransitionTables | None = None,
    ):
        self.options, self.weights, self.transitions = options, weights, transitions
        self.splitter = ChunkSplitter(options.chunks)
        self._rng = generator(options.seed)

    def make(self, utterance: Utterance, supervision: Supervision) -> list[tuple[str, ChainExample]]:
        """Returns the examples of an utterance and their keys, `KEY-FIRSTFRAME`; none if it is too short.

        A chunk is left out with a warning if the normalization graph has none of its sequences. TrainingError if the
        lengths do not fit.
        """
        options, factor = self.options, self.options.chunks.frame_subsampling_factor
        frames = supervision.frames_per_sequence
        self._check(utterance, supervision)
        used = min(utterance.features.shape[0], frames * factor)
        cutter = FrameCutter(supervision.fsts[0])
        examples = []
        for chunk in self.splitter.split(used, self._rng):
            first, count = chunk.first_frame // factor, chunk.num_frames // factor
            part = self._part(cutter.cut(first, count), count, supervision)
            if part is None:
                _LOG.warning(
                    "%s: the chunk at frame %d is left out: the normalization graph has none of its sequences",
                    *(utterance.key, chunk.first_frame),
                )
                continue
            weights = chunk.output_weights
            if utterance.deriv_weights is not None:
                given = utterance.deriv_weights[first : first + count]
                weights = weights * np.pad(given, (0, count - len(given)))
            target = ChainTarget(_OUTPUT, indexes(0, count, factor), part, weights)
            examples.append((_key(utterance.key, chunk, options), self._example(utterance, chunk, target)))
        return examples

    def make_end_to_end(self, utterance: Utterance, graph: Fst, num_pdfs: int) -> ChainExample:
        """Returns the example of a whole utterance with the training graph of its transcript, labels pdf + 1.

        The utterance is cut or extended to the length of `num_frames` within a few frames of its own. TrainingError
        without such a length, or if the transcript does not fit.
        """
        options, factor = self.options, self.options.chunks.frame_subsampling_factor
        num_frames = utterance.features.shape[0]
        check_ivectors(utterance.ivectors, options.online_ivector_period, num_frames, options.length_tolerance)
        lengths = (num_frames,) if options.chunks.num_frames == WHOLE else options.chunks.num_frames
        length = min(lengths, key=lambda frames: abs(frames - num_frames))
        if abs(length - num_frames) > _MOST_OFF:
            raise TrainingError(
                f"its {num_frames} frames are not within {_MOST_OFF} of one of the lengths "
                f"{', '.join(map(str, lengths))}"
            )
        count = -(-length // factor)
        fst = self._weighted_end_to_end(graph)
        if fst is None:
            raise TrainingError("the normalization graph has none of its sequences")
        if shortest_path(fst) > count:
            raise TrainingError(f"its transcript takes at least {shortest_path(fst)} output frames, it has {count}")
        supervision = Supervision(1.0, 1, count, num_pdfs, (fst,), end_to_end=True)
        chunk = self._whole(length, count)
        target = ChainTarget(_OUTPUT, indexes(0, count, factor), supervision, chunk.output_weights)
        return self._example(utterance, chunk, target)

    def _whole(self, length: int, count: int) -> Chunk:
        options = self.options.chunks
        left, right = options.left_context_initial, options.right_context_final
        left, right = options.left_context if left < 0 else left, options.right_context if right < 0 else right
        return Chunk(0, length, left, right, np.ones(count, np.float32))

    def _check(self, utterance: Utterance, supervision: Supervision) -> None:
        options, frames = self.options, supervision.frames_per_sequence
        num_frames, factor = utterance.features.shape[0], options.chunks.frame_subsampling_factor
        if num_frames == 0:
            raise TrainingError("there are no frames")
        if supervision.num_sequences != 1 or supervision.end_to_end:
            raise TrainingError("its supervision must be of one sequence, and not end to end")
        tolerance = options.supervision_length_tolerance
        check_length("frames of supervision", frames, num_frames, factor, tolerance)
        check_ivectors(utterance.ivectors, options.online_ivector_period, num_frames, options.length_tolerance)
        if utterance.deriv_weights is not None and abs(len(utterance.deriv_weights) - frames) > tolerance:
            raise TrainingError(f"it has {len(utterance.deriv_weights)} deriv-weights, but {frames} output frames")
        if self.transitions is not None and supervision.label_dim != self.transitions.num_ids:
            raise TrainingError(
                f"its supervision has {supervision.label_dim} labels, but the transition model "
                f"{self.transitions.num_ids} transition-ids: make it with --convert-to-pdfs=false"
            )

    def _part(self, cut: Fst, count: int, supervision: Supervision) -> Supervision | None:
        """Returns the supervision of a chunk; None if the normalization graph has none of its sequences."""
        if self.transitions is None:
            fst = cut if self.weights is None else self.weights.weighted(cut)
            return None if fst is None else replace(supervision, frames_per_sequence=count, fsts=(fst,))
        pdfs = random_pdfs(cut, self.transitions, self._rng)
        fst = without_times(cut, self.transitions)
        if self.weights is not None:
            fst = self.weights.weighted_end_to_end(fst)
        if fst is None:
            return None
        return Supervision(
            supervision.weight, 1, count, self.transitions.num_pdfs, (fst,), end_to_end=True, alignment_pdfs=pdfs
        )

    def _weighted_end_to_end(self, graph: Fst) -> Fst | None:
        if self.weights is None:
            return numbered_breadth_first(without_epsilons(graph))
        return self.weights.weighted_end_to_end(graph)

    def _example(self, utterance: Utterance, chunk: Chunk, target: ChainTarget) -> ChainExample:
        options = self.options
        inputs = chunk_inputs(
            utterance.features,
            chunk,
            self._rng,
            utterance.ivectors,
            options.online_ivector_period,
            utterance.features.shape[0],
        )
        if options.compress:
            inputs = [replace(io, matrix=compressed(io.matrix)) for io in inputs]
        return ChainExample(tuple(inputs), (target,))


def _key(utterance: str, chunk: Chunk, options: ChainMakingOptions) -> str:
    key = f"{utterance}-{chunk.first_frame}"
    if not options.long_key:
        return key
    return f"{key}-{chunk.left_context}-{chunk.num_frames}-{chunk.right_context}-v1"


def normalized(example: ChainExample, weights: NormalizationWeights) -> ChainExample:
    """Composes the supervision of an example's one output with a normalization graph. TrainingError if
    nothing is left."""
    if len(example.outputs) != 1:
        raise TrainingError(f"an example that is to be normalized must have one output, it has {len(example.outputs)}")
    target = example.outputs[0]
    if target.supervision.end_to_end:
        fsts: tuple[Fst | None, ...] = tuple(weights.weighted_end_to_end(fst) for fst in target.supervision.fsts)
    else:
        fsts = (weights.weighted(target.supervision.fsts[0]),)
    found = tuple(fst for fst in fsts if fst is not None)
    if len(found) < len(fsts):
        raise TrainingError("the normalization graph has none of its sequences")
    supervision = replace(target.supervision, fsts=found)
    return ChainExample(example.inputs, (ChainTarget(target.name, target.indexes, supervision, target.deriv_weights),))
