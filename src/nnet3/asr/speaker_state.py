"""SpeakerState: knowledge of a speaker after some utterances, for the next utterance; Kaldi's file of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3.asr.arrays import Doubles
from nnet3.asr.ivector_stats import IvectorStatistics
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader, Writer

if TYPE_CHECKING:
    from nnet3.asr.ivectors import IvectorModel

_BEGIN = ("<OnlineIvectorExtractorAdaptationState>", "<CmvnState>", "<OnlineCmvnState>")


@dataclass(frozen=True, eq=False)
class SpeakerState:
    """All that is known of a speaker: statistics of features, (2, dim + 1), and of ivectors."""

    cmvn_stats: Doubles | None = None
    statistics: IvectorStatistics | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: IvectorModel) -> SpeakerState:
        """Loads Kaldi's file of a speaker's state. Raises ModelFormatError, also for a state of another model."""
        reader = Reader.open(path)
        for token in (*_BEGIN, "<SpeakerCmvnStats>"):
            reader.expect(token)
        speaker = reader.matrix(np.float64)
        reader.expect("<GlobalCmvnStats>")
        start, everybody = reader.position, reader.matrix(np.float64)
        reader.expect("<FrozenState>")
        if reader.matrix().size:
            raise reader.error("frozen statistics are not supported")
        if everybody.shape != model.cmvn_stats.shape or not np.allclose(everybody, model.cmvn_stats, rtol=1e-5):
            raise reader.error_at(start, "this state is of another model: its statistics of everybody are others")
        for token in ("</OnlineCmvnState>", "<IvectorStats>", "<OnlineIvectorEstimationStats>", "<PriorOffset>"):
            reader.expect(token)
        offset = reader.real()
        max_count = reader.real() if reader.accept("<MaxCount>") else 0.0
        statistics = IvectorStatistics(model.extractor, max_count)
        reader.expect("<NumFrames>")
        statistics.count = reader.real()
        reader.expect("<QuadraticTerm>")
        quadratic = reader.packed()
        reader.expect("<LinearTerm>")
        linear = reader.vector(np.float64)
        for token in ("</OnlineIvectorEstimationStats>", "</OnlineIvectorExtractorAdaptationState>"):
            reader.expect(token)
        reader.finish()
        is_same = abs(offset - model.extractor.offset) <= 1e-4 * abs(offset)
        if not is_same or (linear.shape, quadratic.shape) != (statistics.linear.shape, statistics.quadratic.shape):
            raise ModelFormatError("this state is of another model: its ivectors are others", os.fspath(path))
        if speaker.size and speaker.shape != everybody.shape:
            raise ModelFormatError(
                f"statistics of a speaker must be {everybody.shape}, got {speaker.shape}", os.fspath(path)
            )
        statistics.linear, statistics.quadratic = linear, quadratic
        if not all(np.isfinite(each).all() for each in (speaker, linear, quadratic, statistics.count)):
            raise ModelFormatError("there is a NaN or an infinity", os.fspath(path))
        return cls(speaker if speaker.size else None, statistics)

    def save(self, path: str | os.PathLike[str], model: IvectorModel, binary: bool = True) -> None:
        """Writes the file, atomically, for this extractor."""
        statistics = self.statistics or IvectorStatistics(model.extractor, model.options.max_count)
        writer = Writer.of_file(binary)
        for token in (*_BEGIN, "<SpeakerCmvnStats>"):
            writer.token(token)
        nothing = np.zeros((0, 0))
        writer.matrix(nothing if self.cmvn_stats is None else self.cmvn_stats, double=True)
        writer.token("<GlobalCmvnStats>")
        writer.matrix(model.cmvn_stats, double=True)
        writer.token("<FrozenState>")
        writer.matrix(nothing, double=True)
        for token in ("</OnlineCmvnState>", "<IvectorStats>", "<OnlineIvectorEstimationStats>", "<PriorOffset>"):
            writer.token(token)
        writer.double(model.extractor.offset)
        if statistics.max_count:
            writer.token("<MaxCount>")
            writer.double(statistics.max_count)
        writer.token("<NumFrames>")
        writer.double(statistics.count)
        writer.token("<QuadraticTerm>")
        writer.packed(statistics.quadratic, double=True)
        writer.token("<LinearTerm>")
        writer.vector(statistics.linear, double=True)
        for token in ("</OnlineIvectorEstimationStats>", "</OnlineIvectorExtractorAdaptationState>"):
            writer.token(token)
        writer.write_to(path)
