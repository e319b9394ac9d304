"""Online ivectors: the vector that tells a network about speaker and channel, and what is known of a speaker."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.load import load_matrix
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.declaring import Options
from nnet3.base.options.recognizer import IvectorOptions, OnlineCmvnOptions, SpliceOptions
from nnet3.errors import ExecutionError, ModelFormatError
from nnet3.speech.arrays.aliases import Doubles, Integers, Rows, Singles
from nnet3.speech.arrays.row_buffer import RowBuffer
from nnet3.speech.features.conf_file import read_conf
from nnet3.speech.features.features import OnlineCmvn, SplicedTransform
from nnet3.speech.features.ivector_files import (
    DiagonalGmm,
    IvectorExtractor,
    check_magnitude,
    load_cmvn_stats,
    load_diagonal_gmm,
    load_ivector_extractor,
)
from nnet3.speech.features.ivector_stats import (
    IvectorStatistics,
    LikelyGaussians,
    as_output,
    best_gaussians,
    posteriors,
)

FileName = str | os.PathLike[str]
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
        statistics.count = reader.after("<NumFrames>").real()
        quadratic = reader.after("<QuadraticTerm>").packed()
        linear = reader.after("<LinearTerm>").vector(np.float64)
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
        writer.token("<GlobalCmvnStats>").matrix(model.cmvn_stats, double=True)
        writer.token("<FrozenState>").matrix(nothing, double=True)
        for token in ("</OnlineCmvnState>", "<IvectorStats>", "<OnlineIvectorEstimationStats>", "<PriorOffset>"):
            writer.token(token)
        writer.double(model.extractor.offset)
        if statistics.max_count:
            writer.token("<MaxCount>").double(statistics.max_count)
        writer.token("<NumFrames>").double(statistics.count)
        writer.token("<QuadraticTerm>").packed(statistics.quadratic, double=True)
        writer.token("<LinearTerm>").vector(statistics.linear, double=True)
        for token in ("</OnlineIvectorEstimationStats>", "</OnlineIvectorExtractorAdaptationState>"):
            writer.token(token)
        writer.write_to(path)


@dataclass(frozen=True, eq=False)
class IvectorModel:
    """The extractor of ivectors and all its inputs. Raises ModelFormatError for parts that do not fit.

    `transform` is (E, spliced features) or has one column more, the offset; `cmvn_stats` is (2, features + 1).
    """

    extractor: IvectorExtractor
    gmm: DiagonalGmm
    transform: Rows
    cmvn_stats: Doubles
    splice: SpliceOptions = field(default_factory=SpliceOptions)
    cmvn: OnlineCmvnOptions = field(default_factory=OnlineCmvnOptions)
    options: IvectorOptions = field(default_factory=IvectorOptions)

    def __post_init__(self) -> None:
        rows, extractor = len(self.transform), self.extractor
        if not rows == self.gmm.dim == extractor.dim:
            raise ModelFormatError(
                f"the parts of the ivector extractor do not fit: the transform (final.mat) has {rows} rows, the "
                f"background model (final.dubm) dimension {self.gmm.dim}, the extractor (final.ie) {extractor.dim}"
            )
        if len(self.gmm.weights) != extractor.num_gaussians:
            raise ModelFormatError(
                f"the parts of the ivector extractor do not fit: the background model (final.dubm) has "
                f"{len(self.gmm.weights)} Gaussians, the extractor (final.ie) {extractor.num_gaussians}"
            )
        check_magnitude("the transform (final.mat)", self.transform)
        SplicedTransform(self.splice, self.transform, self.feature_dim)
        OnlineCmvn(self.cmvn, self.cmvn_stats)

    @property
    def feature_dim(self) -> int:
        return self.cmvn_stats.shape[1] - 1

    @property
    def dim(self) -> int:
        return self.extractor.ivector_dim

    def compute(
        self,
        features: Rows,
        speaker: SpeakerState | None = None,
        weights: Singles | None = None,
        repeat: bool = False,
    ) -> tuple[Singles, SpeakerState]:
        """Returns the ivectors of an utterance, one every `ivector_period` frames, and the speaker's state afterwards.

        Row r is the estimate from the frames up to r times the period, as networks see ivectors in training; with
        `repeat` the ivector is repeated for all frames of its period, (frames, dim). The state knows the features of
        all frames, but, as in Kaldi's program, statistics only of the frames up to the last one with an ivector:
        without `repeat` not of the frames behind the last ivector. `weights`, (frames,), say how much a frame counts.
        """
        stream = OnlineIvectors(
            replace(self, options=replace(self.options, use_most_recent_ivector=False)),
            speaker,
            weighted=weights is not None,
        )
        if weights is not None:
            stream.weigh(np.arange(len(weights)), np.asarray(weights, np.float64))
        stream.accept(features, last=True)
        if stream.ready == 0:
            return np.zeros((0, self.dim), np.float32), stream.speaker_state()
        frames = np.arange(0, stream.ready, 1 if repeat else self.options.ivector_period)
        rows = [stream.at(int(frame)) for frame in (frames[-1], *frames)]
        return np.stack(rows[1:]), stream.speaker_state()


class IvectorFiles(NamedTuple):
    """The files of an extractor; "" for a missing config file."""

    extractor: FileName
    gmm: FileName
    transform: FileName
    cmvn_stats: FileName
    splice_conf: FileName = ""
    cmvn_conf: FileName = ""

    def load(self, options: IvectorOptions, cmvn: OnlineCmvnOptions | None = None) -> IvectorModel:
        """Loads them; `cmvn` is what counts where the config file is silent. Raises as `read_conf` does, too."""
        splice: Options = SpliceOptions()
        normalising: Options = cmvn or OnlineCmvnOptions()
        if self.splice_conf:
            splice = read_conf(self.splice_conf, {"": splice})[""]
        if self.cmvn_conf:
            normalising = read_conf(self.cmvn_conf, {"": normalising})[""]
        return IvectorModel(
            load_ivector_extractor(self.extractor),
            load_diagonal_gmm(self.gmm),
            load_matrix(self.transform),
            load_cmvn_stats(self.cmvn_stats),
            cast(SpliceOptions, splice),
            cast(OnlineCmvnOptions, normalising),
            options,
        )


class OnlineIvectors:
    """The ivectors of one stream of features.

    With `weighted`, a frame counts for as much as `weigh` has said; else all frames count in full.
    """

    def __init__(self, model: IvectorModel, speaker: SpeakerState | None = None, *, weighted: bool = False):
        speaker = speaker or SpeakerState()
        options = self._options = model.options
        self.model, self._weighted, self._speaker = model, weighted, speaker
        self._cmvn = OnlineCmvn(model.cmvn, model.cmvn_stats, speaker.cmvn_stats)
        self._splice = SplicedTransform(model.splice, model.transform, model.feature_dim)
        self._features = RowBuffer(model.feature_dim)
        self._selected = min(options.num_gselect, len(model.gmm.weights))
        self._rows = RowBuffer(len(model.transform))
        self._gaussians, self._log_likelihoods = RowBuffer(self._selected, np.int64), RowBuffer(self._selected)
        if speaker.statistics is None:
            self._statistics = IvectorStatistics(model.extractor, options.max_count)
        else:
            self._statistics = speaker.statistics.copy()
        self._estimate = self._statistics.prior_mean()
        self._estimates: list[Singles] = []  # one for each estimation point, without use_most_recent_ivector
        self._newest = self._output()
        self._done = 0  # frames that have been taken in
        self._weights = np.zeros(0)  # waiting, for frame `_first_weight` and those after it
        self._first_weight = 0
        self._settled = 0  # frames before this one keep their weights
        self._is_finished = False

    @property
    def ready(self) -> int:
        """The number of frames with all their right neighbours, for which `at` can be called."""
        return len(self._rows)

    def accept(self, features: Rows, last: bool = False) -> None:
        """Takes frames in, (n, dim), before any normalisation."""
        if self._is_finished:
            raise ExecutionError("the stream of features has ended: begin another one")
        if features.ndim != 2 or features.shape[1] != self.model.feature_dim:
            raise ExecutionError(f"features must be (frames, {self.model.feature_dim}), got {features.shape}")
        self._is_finished = last
        self._features.append(features)
        self._cmvn.accept(features)
        frames = self._splice.next_frames(len(self._features), last)
        rows, normalized = (self._splice.apply(each) for each in (self._features.take(frames), self._cmvn.at(frames)))
        for buffer in (self._features, self._cmvn):
            buffer.forget(self._splice.first_needed)
        candidates = best_gaussians(self.model.gmm.log_likelihoods(normalized), self._selected)
        self._rows.append(normalized if self._options.online_cmvn_iextractor else rows)
        self._gaussians.append(candidates.gaussians)
        self._log_likelihoods.append(candidates.log_likelihoods)

    def weigh(self, frames: Integers, changes: Doubles) -> None:
        """Adds `changes` (n,) to the weights of `frames` (n,), also of frames still to come."""
        if not self._weighted:
            raise ExecutionError("the frames of this stream have no weights: make it with weighted=True")
        if len(frames) == 0:
            return
        first = min(int(frames.min()), self._first_weight if len(self._weights) else int(frames.min()))
        end = max(int(frames.max()) + 1, self._first_weight + len(self._weights))
        weights = np.zeros(end - first)
        weights[self._first_weight - first :][: len(self._weights)] = self._weights
        np.add.at(weights, frames - first, changes)
        self._weights, self._first_weight = weights, first

    def settle(self, frame: int) -> None:
        """Fixes the weights of the frames before `frame`; once in the statistics, these frames are forgotten."""
        self._settled = frame

    def at(self, frame: int) -> Singles:
        """Returns the ivector for a frame, (ivector_dim,), after taking in the frames up to it.

        Raises ExecutionError for a frame that is not ready, and for a frame behind the weighted frames.
        """
        if not 0 <= frame < self.ready:
            raise ExecutionError(f"there is no ivector for frame {frame} yet: {self.ready} frames are ready")
        last = self.ready - 1 if self._options.greedy_ivector_extractor else frame
        if last >= self._done:
            if self._weighted and last >= self._first_weight + len(self._weights):
                raise ExecutionError(f"frame {last} and those after it have no weight yet")
            self._take_in(last)
        if self._options.newest_only:
            return self._newest.copy()
        return self._estimates[frame // self._options.ivector_period].copy()

    def speaker_state(self) -> SpeakerState:
        """Returns the speaker's state for the next utterance, after the last one of this stream."""
        most, stats = self._options.max_remembered_frames, self._cmvn.stats.copy()
        if self._speaker.cmvn_stats is not None:
            stats += self._speaker.cmvn_stats
        if stats[0, -1] > most:
            stats *= most / stats[0, -1]
        statistics = self._statistics.copy()
        if statistics.count > most * self._options.posterior_scale:
            statistics.scale(most * self._options.posterior_scale / statistics.count)
        return SpeakerState(stats, statistics)

    def _take_in(self, last: int) -> None:
        """Adds the frames up to `last`, with an estimate at every point due for one."""
        period = self._options.ivector_period
        points = [last]
        if not self._options.newest_only:
            points = list(range(-(-self._done // period) * period, last + 1, period))
        for point in points:
            self._add_up_to(point)
            self._estimate = self._statistics.estimate(self._estimate)
            self._newest = self._output()
            if not self._options.newest_only:
                self._estimates.append(self._newest)
        self._add_up_to(last)
        for buffer in (self._rows, self._gaussians, self._log_likelihoods):
            buffer.forget(min(self._done, self._settled) if self._weighted else self._done)

    def _add_up_to(self, last: int) -> None:
        frames, weights = self._waiting(last)
        self._done = last + 1
        if len(frames) == 0:
            return
        candidates = LikelyGaussians(self._gaussians.take(frames), self._log_likelihoods.take(frames))
        self._statistics.add(
            self._rows.take(frames), candidates.gaussians, posteriors(candidates, weights, self._options)
        )

    def _waiting(self, last: int) -> tuple[Integers, Doubles]:
        """Returns the frames up to `last` that are to be added, and with which weights; none waits any more."""
        if not self._weighted:
            frames = np.arange(self._done, last + 1)
            return frames, np.ones(len(frames))
        count = max(last + 1 - self._first_weight, 0)
        weights = self._weights[:count]
        frames = self._first_weight + np.flatnonzero(weights)
        self._weights, self._first_weight = self._weights[count:], self._first_weight + min(count, len(self._weights))
        return frames, weights[weights != 0]

    def _output(self) -> npt.NDArray[np.float32]:
        return as_output(self._estimate, self.model.extractor.offset)
