"""Speaker vectors: one vector for the voice of a segment, computed by a speaker model as in Vosk."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nnet3.base.kaldi_io.files import check_is_path
from nnet3.base.kaldi_io.load import load_matrix, load_vector
from nnet3.base.options.speaker import SlidingCmvnOptions
from nnet3.base.options.utterances import XvectorOptions
from nnet3.errors import ModelFormatError, Nnet3Error
from nnet3.inference.xvector import XvectorComputer
from nnet3.model.nnet import Nnet, load
from nnet3.speech.arrays.aliases import Integers, Rows, Singles
from nnet3.speech.arrays.row_buffer import RowBuffer
from nnet3.speech.asr.vosk_json import Json
from nnet3.speech.features.audio import Samples
from nnet3.speech.features.features import FeatureStream, read_feature_options
from nnet3.speech.features.ivector_files import check_magnitude
from nnet3.speech.features.sliding_cmvn import normalised_by_window

_LOG = logging.getLogger("nnet3")
_FILES = ("mfcc.conf", "final.ext.raw", "mean.vec", "transform.mat")
_FACTOR = 3  # frames a row of the search, whatever the recognizer's own factor is
_LEAST_FRAMES = 50
NORMALISATION = SlidingCmvnOptions(cmn_window=300, center=True)
"""Of the network's input."""


class SpkModel:
    """A speaker model of Vosk: a folder with an x-vector network, and what makes its vectors comparable.

    `dim` is the size of the vectors. Raises ModelFormatError for files that are missing or of different models,
    ConfigError for a setting in mfcc.conf. Recognizers share it, also those of several threads.
    """

    def __init__(self, model_path: str | os.PathLike[str]):
        check_is_path(model_path, "a folder with a speaker model")
        self.path = Path(model_path)
        missing = [name for name in _FILES if not (self.path / name).is_file()]
        if missing:
            raise ModelFormatError(
                f"a speaker model is a folder with {', '.join(_FILES)}; missing: {', '.join(missing)}", str(self.path)
            )
        self.features = replace(read_feature_options(self.path / _FILES[0], "mfcc"), allow_downsample=True)
        nnet = load(self.path / _FILES[1])
        if not isinstance(nnet, Nnet):
            raise ModelFormatError("a speaker model has a raw network", str(self.path / _FILES[1]))
        self._mean = load_vector(self.path / _FILES[2])
        self._transform = load_matrix(self.path / _FILES[3])
        for name, numbers in zip(_FILES[2:], (self._mean, self._transform), strict=True):
            check_magnitude("the numbers", numbers, str(self.path / name))
        try:
            self._computer = XvectorComputer(nnet, XvectorOptions(min_chunk_size=1))
        except Nnet3Error as error:
            raise ModelFormatError(str(error), str(self.path / _FILES[1])) from None
        self._check_dims(nnet)

    @property
    def dim(self) -> int:
        """The size of the vectors."""
        return len(self._transform)

    def _check_dims(self, nnet: Nnet) -> None:
        output = nnet.node_dim("output")
        for name, what, got, wanted in (
            (_FILES[1], "the network's input is", nnet.node_dim("input"), self.features.dim),
            (_FILES[2], "the mean is", len(self._mean), output),
            (_FILES[3], "the transform's columns are", self._transform.shape[1], output),
        ):
            if got != wanted:
                of = f"the features of {_FILES[0]} are" if name == _FILES[1] else "the network's output is"
                raise ModelFormatError(f"{what} of dimension {got}, but {of} of {wanted}", str(self.path / name))

    def vector(self, frames: Rows) -> Singles:
        """Returns the vector (dim,), of length sqrt(dim), of frames of speech (frames, features), at least 50.

        Raises ExecutionError for fewer frames, and for a vector that is not finite.
        """
        normalised, _ = normalised_by_window(frames, NORMALISATION)
        output = self._computer.compute(normalised).cpu().numpy()
        vector = self._transform @ (output - self._mean)
        length = float(np.linalg.norm(vector))
        return (vector * (np.sqrt(self.dim) / length if length else 0.0)).astype(np.float32)


@dataclass(frozen=True, eq=False)
class SpeakerVector:
    """The vector of a speaker, (dim,), and the number of frames of speech behind it."""

    vector: Singles
    num_frames: int

    def json(self) -> dict[str, Json]:
        """Returns the keys that Vosk adds to a result."""
        return {"spk": self.vector.tolist(), "spk_frames": self.num_frames}


class SpeakerStream:
    """The features of a stream for a speaker model, and the vector of each segment."""

    def __init__(self, model: SpkModel, rate: float):
        self.model = model
        self._features = FeatureStream(model.features, rate)
        self._frames = RowBuffer(model.features.dim)

    def begin_segment(self, first_row: int) -> None:
        """Forgets the frames before a row of the search."""
        self._frames.forget(_FACTOR * first_row)

    def accept(self, samples: Samples) -> None:
        self._frames.append(self._features.accept(samples))

    def found(self, first_row: int, speech: Integers) -> SpeakerVector | None:
        """Returns the vector of the segment that begins at `first_row`; None if it has too few frames of speech.

        `speech` are the rows of speech, counted from the segment's first row.
        """
        frames = speech_frames(speech, len(self._frames) - _FACTOR * first_row)
        if len(frames) < _LEAST_FRAMES:
            return None
        try:
            vector = self.model.vector(self._frames.take(_FACTOR * first_row + frames))
        except Nnet3Error as error:
            _LOG.warning("%s: no speaker vector of this segment: %s", self.model.path, error)
            return None
        return SpeakerVector(vector, len(frames))


def speech_frames(rows: Integers, num_frames: int) -> Integers:
    """Returns the frames of some rows of a segment of `num_frames` frames.

    >>> speech_frames(np.array([0, 2]), num_frames=8).tolist()
    [0, 1, 2, 6, 7]
    """
    frames = (_FACTOR * rows[:, np.newaxis] + np.arange(_FACTOR)).reshape(-1)
    return frames[frames < num_frames]
