"""Makes discriminative examples from features, denominator lattices and alignments."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.general import GeneralMatrix, compressed, dense
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.options.discriminative import DiscriminativeMakingOptions
from nnet3.base.options.examples import WHOLE
from nnet3.errors import ModelFormatError, NetworkError, TrainingError
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.training.discriminative.lattice_example import DiscriminativeExample
from nnet3.training.discriminative.splitting import LatticeCutter, PreparedLattice
from nnet3.training.discriminative.supervision import DiscriminativeSupervision, DiscriminativeTarget
from nnet3.training.examples.chunk_ios import check_ivectors, check_length, chunk_inputs, indexes
from nnet3.training.examples.chunks import ChunkSplitter
from nnet3.training.examples.making import generator

_OUTPUT = "output"


@dataclass(frozen=True, eq=False)
class LatticeUtterance:
    """An utterance: features (frames, dim); right transition-ids, (output frames,); a denominator lattice, plain or
    compact, acoustic costs not scaled; ivectors (rows, dim), one every `online_ivector_period` frames."""

    key: str
    features: GeneralMatrix
    alignment: npt.NDArray[np.int32]
    lattice: Lattice
    ivectors: npt.NDArray[np.float32] | None = None


class DiscriminativeExampleMaker:
    """Makes the examples of utterance after utterance. `splitter` counts its cuts."""

    def __init__(self, options: DiscriminativeMakingOptions, transitions: TransitionModel):
        """Raises TrainingError for chunks of a single row of the output."""
        least, lengths = 2 * options.chunks.frame_subsampling_factor, options.chunks.num_frames
        if lengths != WHOLE and min(lengths) < least:
            error = TrainingError(f"num_frames must be at least {least}, such as 150, or -1, got {min(lengths)}")
            error.option = "num_frames"
            raise error
        self.options, self.transitions = options, transitions
        self.splitter = ChunkSplitter(options.chunks)
        self._rng = generator(options.seed)

    def make(self, utterance: LatticeUtterance) -> list[tuple[str, DiscriminativeExample]]:
        """Returns the examples of an utterance and their keys, `KEY-FIRSTFRAME`; none if it is too short.

        Raises TrainingError if something is missing or lengths do not fit the features. Raises ModelFormatError if
        lattice and alignment do not belong together: then something is wrong with all utterances.
        """
        options, factor = self.options, self.options.chunks.frame_subsampling_factor
        features, alignment = dense(utterance.features), utterance.alignment  # chunks are compressed anew, as Kaldi's
        num_frames = len(features)
        if len(alignment) == 0 or utterance.lattice.fst.num_states == 0:
            raise TrainingError("its alignment is empty" if len(alignment) == 0 else "its lattice is empty")
        self._check_ids(utterance)
        prepared = PreparedLattice.of(utterance.lattice, options.acoustic_scale)
        if prepared.num_frames != len(alignment):
            raise ModelFormatError(
                f"{utterance.key}: the lattice has {prepared.num_frames} frames, but the alignment {len(alignment)}: "
                "do they belong to the same features?"
            )
        check_length("transition-ids of the alignment", len(alignment), num_frames, factor, 0)
        if options.chunks.num_frames == WHOLE and num_frames < 2 * factor:
            raise TrainingError(f"its {num_frames} frames make fewer than 2 rows of the output")
        check_ivectors(utterance.ivectors, options.online_ivector_period, num_frames, options.length_tolerance)
        cutter = LatticeCutter(prepared, self.transitions.pdf_of_label, options)
        examples = []
        for number, chunk in enumerate(self.splitter.split(num_frames, self._rng)):
            first, count = chunk.first_frame // factor, chunk.num_frames // factor
            supervision = DiscriminativeSupervision(
                *(1.0, 1, count, alignment[first : first + count]), cutter.cut(first, count, is_first=number == 0)
            )
            target = DiscriminativeTarget(_OUTPUT, indexes(0, count, factor), supervision, chunk.output_weights)
            period = options.online_ivector_period
            inputs = chunk_inputs(features, chunk, self._rng, utterance.ivectors, period, num_frames)
            if options.compress:
                inputs = [replace(io, matrix=compressed(io.matrix)) for io in inputs]
            key = f"{utterance.key}-{chunk.first_frame}"
            examples.append((key, DiscriminativeExample(tuple(inputs), (target,))))
        return examples

    def _check_ids(self, utterance: LatticeUtterance) -> None:
        for ids in (utterance.alignment, utterance.lattice.transition_ids.values):
            try:
                self.transitions.pdf(ids)
            except NetworkError as error:
                raise ModelFormatError(f"{utterance.key}: {error}: is this the model that made it?") from None
