"""SpeakerModel: a published x-vector model, from recordings to vectors that can be compared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.files import check_is_path
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.options.speaker import SlidingCmvnOptions, VadOptions
from nnet3.base.options.utterances import XvectorOptions
from nnet3.errors import ModelFormatError, Nnet3Error
from nnet3.inference.xvector import XvectorComputer, cosine_scores
from nnet3.model.nnet import load_nnet
from nnet3.speech.arrays.aliases import Doubles, Flags, Rows, Singles
from nnet3.speech.features.audio import PcmReader
from nnet3.speech.features.audio_file import open_audio
from nnet3.speech.features.conf_file import read_conf
from nnet3.speech.features.features import FeatureStream, read_feature_options
from nnet3.speech.features.sliding_cmvn import normalised_by_window
from nnet3.speech.speaker.plda import Plda
from nnet3.speech.speaker.speaker_stats import transformed, with_length
from nnet3.speech.speaker.voice_activity import voiced_frames

#: A file of any audio format, or samples (n,) or (n, channels) and their rate.
Recording = str | os.PathLike[str] | tuple[npt.NDArray[np.generic], float]
_NETWORKS = ("final.raw", "final.ext.raw")
_CMVN = SlidingCmvnOptions(cmn_window=300, center=True)  # as the recipes have it
_CHUNK, _LEAST_CHUNK = 10000, 25
_SHOWN = 5  # files in a message
_PIECE_SECONDS, _BAND_OF_WHOLE_RECORDINGS = 10.0, 99


class SpeakerModel:
    """A directory as published by recipes of x-vectors; files may lie in any subfolder.

    `final.raw` is the network and `extract.config` says which layer is the vector; `mfcc.conf` and `vad.conf` say how
    frames are made and chosen; `mean.vec` is subtracted from vectors, `transform.mat` multiplies and `plda` compares
    vectors. `mean`, `transform`, `plda`: which file counts in a directory with several of a name.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mean: str | os.PathLike[str] | None = None,
        transform: str | os.PathLike[str] | None = None,
        plda: str | os.PathLike[str] | None = None,
    ):
        """Raises ModelFormatError for missing files and for files that do not fit together."""
        check_is_path(path, "a model directory")
        self.path = Path(path)
        if not self.path.is_dir():
            raise ModelFormatError("there is no such model directory", str(path))
        network = next((found for name in _NETWORKS if (found := self._file(name))), None)
        conf, vad = self._file("mfcc.conf"), self._file("vad.conf")
        if network is None or conf is None:
            missing = _NETWORKS[0] if network is None else "mfcc.conf"
            raise ModelFormatError(f"this is no model of x-vectors: {missing} is missing", str(path))
        self.features = read_feature_options(conf, "mfcc")
        self.vad = cast(VadOptions, read_conf(vad, {"": VadOptions()})[""]) if vad is not None else VadOptions()
        nnet = load_nnet(network)
        extract = network.with_name("extract.config")
        if extract.is_file():
            nnet.apply_config(extract.read_text(), source=str(extract))
        sizes = [_number_in(network.with_name(name)) for name in ("max_chunk_size", "min_chunk_size")]
        self.xvector_options = XvectorOptions(sizes[0] or _CHUNK, sizes[1] or _LEAST_CHUNK)
        self._computer = XvectorComputer(nnet, self.xvector_options)
        if nnet.input_dims["input"] != self.features.dim:
            raise ModelFormatError(
                f"the network takes {nnet.input_dims['input']} numbers a frame, mfcc.conf makes {self.features.dim}",
                str(network),
            )
        mean_file, transform_file = self._file("mean.vec", mean), self._file("transform.mat", transform)
        plda_file = self._file("plda", plda)
        self.mean = None if mean_file is None else Reader.open(mean_file).whole(Reader.vector)
        self.transform = None if transform_file is None else Reader.open(transform_file).whole(Reader.matrix)
        self.plda = None if plda_file is None else Reader.open(plda_file).whole(Plda.read)
        self._check_dims(nnet.node_dim("output"))

    def _file(self, name: str, given: str | os.PathLike[str] | None = None) -> Path | None:
        """Returns the given file, or the only file of a name that lies least deep in the directory; None for none."""
        if given is not None:
            return self.path / given if (self.path / given).is_file() else Path(given)
        found = [file for file in self.path.rglob(name) if file.is_file()]
        depths = [len(file.parts) for file in found]
        found = sorted(file for file, depth in zip(found, depths, strict=True) if depth == min(depths))
        if len(found) > 1:
            shown = ", ".join(str(file.relative_to(self.path)) for file in found[:_SHOWN]) + ", ..." * (
                len(found) > _SHOWN
            )
            raise ModelFormatError(f"there is more than one {name}: {shown}: say which counts", str(self.path))
        return found[0] if found else None

    def _check_dims(self, dim: int) -> None:
        if self.mean is not None and len(self.mean) != dim:
            raise ModelFormatError(f"vectors have {dim} numbers, mean.vec {len(self.mean)}", str(self.path))
        if self.transform is not None:
            if self.transform.shape[1] not in (dim, dim + 1):
                raise ModelFormatError(
                    f"vectors have {dim} numbers, transform.mat {self.transform.shape[1]} columns", str(self.path)
                )
            dim = len(self.transform)
        if self.plda is not None and self.plda.dim != dim:
            raise ModelFormatError(f"vectors have {dim} numbers, plda is of {self.plda.dim}", str(self.path))

    @property
    def frame_seconds(self) -> float:
        """The time from frame to frame."""
        return self.features.frame_shift / 1000

    def frames(self, recording: Recording) -> tuple[Rows, Flags]:
        """Returns normalised features (frames, columns) of a recording, and which frames have a voice, (frames,).

        Raises Nnet3Error for a recording that cannot be read, or without a frame.
        """
        samples, rate = _samples_of(recording)
        rows = FeatureStream(self.features, rate, _BAND_OF_WHOLE_RECORDINGS).accept(samples, last=True)
        if not len(rows):
            raise Nnet3Error(f"{len(samples) / rate:g} s are too short for a frame")
        return normalised_by_window(rows, _CMVN)[0], voiced_frames(rows, self.vad)

    def vector(self, recording: Recording) -> Singles:
        """Returns the network's vector (dim,) of the frames with a voice. Raises Nnet3Error if there are none."""
        features, voiced = self.frames(recording)
        if not voiced.any():
            raise Nnet3Error("there is no voice in this recording")
        return self._computer.compute(features[voiced]).cpu().numpy()

    def vectors(self, utterances: Iterable[Rows]) -> Singles:
        """Returns the network's vectors (utterances, dim) of normalised features. Raises Nnet3Error."""
        found = []
        for _, result in self._computer.compute_all(enumerate(utterances)):
            if isinstance(result, Nnet3Error):
                raise result
            found.append(result.cpu().numpy())
        return np.stack(found)

    def prepared(self, vectors: Singles) -> Singles:
        """Returns the network's vectors (n, dim) centred, transformed and of the length that the model compares."""
        if self.mean is not None:
            vectors = vectors - self.mean
        if self.transform is not None:
            vectors = transformed(vectors, self.transform)
        return with_length(vectors)

    def compare(self, enrolled: Singles, counts: Sequence[int], tests: Singles) -> Doubles:
        """Returns scores (n, m) of vectors (n, dim), each a mean of counts (n,) vectors, and tests (m, dim).

        A score is the log-likelihood ratio of PLDA: above 0 one speaker is likelier than two. Without `plda` it is the
        cosine.
        """
        first, second = self.prepared(enrolled), self.prepared(tests)
        if self.plda is None:
            return np.asarray(cosine_scores(first, second).numpy(), np.float64)
        own, _ = self.plda.in_own_space(first, counts)
        return self.plda.ratios(own, counts, self.plda.in_own_space(second)[0])


def _samples_of(recording: Recording) -> tuple[Singles, float]:
    """Returns samples (n,) of a recording, channels averaged, and their rate."""
    if isinstance(recording, tuple):
        samples, rate = recording
        channels = 1 if np.ndim(samples) < 2 else np.shape(samples)[1]
        return PcmReader(channels).read(samples), rate
    check_is_path(recording, "a recording")
    try:
        with open(recording, "rb") as file:
            source = open_audio(file, os.fspath(recording))
            reader = PcmReader(source.channels)
            return np.concatenate([reader.read(piece) for piece in source.pieces(_PIECE_SECONDS)]), source.rate
    except OSError as error:
        raise ModelFormatError(f"cannot read this file: {error.strerror}", os.fspath(recording)) from None


def _number_in(path: Path) -> int:
    """Returns the number in a file; 0 without a file. Raises ModelFormatError for other contents."""
    word = path.read_text().strip() if path.is_file() else "0"
    if not word.isdecimal():
        raise ModelFormatError(f"expected a number of frames, got '{word[:20]}'", str(path))
    return int(word)
