"""Options of speaker recognition, with Kaldi's names and defaults: voices in audio, PLDA, clusters of speakers."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.base.options.declaring import Options, option
from nnet3.base.text.values import Boolean, Integer, Number, above, at_least, bounds, within

_BOOLEAN, _SHARE = Boolean(), Number(within(0, 1))
_SECONDS = Number(above(0))


@dataclass(frozen=True)
class VadOptions(Options):
    """Voice activity by energy, which is the first column of features (vad.conf)."""

    vad_energy_threshold: float = option(5.0, Number(), "Constant part of the threshold.")
    vad_energy_mean_scale: float = option(
        0.5, Number(at_least(0)), "The mean energy of the utterance, times this, is the rest of the threshold."
    )
    vad_frames_context: int = option(
        0, Integer(at_least(0)), "Frames to each side that decide about a frame too.", unit="frames"
    )
    vad_proportion_threshold: float = option(
        0.6, Number(bounds(above=0, below=1)), "Share of these frames that must be above the threshold."
    )


@dataclass(frozen=True)
class SlidingCmvnOptions(Options):
    """Normalisation of mean and variance by a window that slides over the frames."""

    cmn_window: int = option(600, Integer(within(1, 10**6)), "Frames of the window.", unit="frames")
    min_cmn_window: int = option(
        100, Integer(at_least(0)), "Least frames of the window at the start, without --center.", unit="frames"
    )
    center: bool = option(False, _BOOLEAN, "The window lies around the frame (false: before it).")
    norm_vars: bool = option(False, _BOOLEAN, "Normalise variances too.")


@dataclass(frozen=True)
class PldaScoringOptions(Options):
    """The length of vectors before they are compared."""

    normalize_length: bool = option(
        True, _BOOLEAN, "Give vectors the length that the model expects of a mean of so many vectors."
    )
    simple_length_normalization: bool = option(
        False, _BOOLEAN, "The expected length is the square root of the dimension, however many vectors."
    )


@dataclass(frozen=True)
class PldaAdaptationOptions(Options):
    """Adaptation of PLDA to vectors whose speakers are unknown."""

    mean_diff_scale: float = option(
        1.0, Number(at_least(0)), "Scale of the squared difference of the means, in the variance of new vectors."
    )
    within_covar_scale: float = option(0.3, Number(at_least(0)), "Share of new variance that is within speakers.")
    between_covar_scale: float = option(0.7, Number(at_least(0)), "Share of new variance that is between speakers.")


@dataclass(frozen=True)
class SpeakerLdaOptions(Options):
    """Linear discriminant analysis of vectors of speakers."""

    dim: int = option(100, Integer(at_least(1)), "Dimensions to keep.")
    total_covariance_factor: float = option(
        0.0, _SHARE, "What becomes unit: 0: the covariance within speakers, 1: the total one, else a mixture."
    )
    covariance_floor: float = option(
        1e-6, Number(at_least(0)), "Least eigenvalue of that covariance, as a share of the largest one."
    )


@dataclass(frozen=True)
class ClusteringOptions(Options):
    """Agglomerative clustering of utterances by how alike they are."""

    threshold: float = option(0.0, Number(), "Clusters less alike than this are not merged.")
    first_pass_max_utterances: int = option(
        32767, Integer(at_least(1)), "More utterances are clustered in parts of at most so many first."
    )
    max_spk_fraction: float = option(
        1.0, Number(), "Largest share of the utterances in a cluster, where the number of speakers is given."
    )


@dataclass(frozen=True)
class DiarizationOptions(Options):
    """Who spoke when: stretches of speech are cut into windows, whose vectors are clustered."""

    window: float = option(1.5, _SECONDS, "Length of a window.", unit="s")
    period: float = option(0.75, _SECONDS, "From window to window.", unit="s")
    min_segment: float = option(0.5, _SECONDS, "Least speech for a vector.", unit="s")
    max_pause: float = option(0.3, Number(at_least(0)), "Shorter pauses count as speech.", unit="s")
    target_energy: float = option(
        0.1, Number(bounds(above=0, maximum=1)), "Share of the vectors' variance that the comparison keeps."
    )
    threshold: float = option(0.0, Number(), "Voices less alike than this are two speakers.")
