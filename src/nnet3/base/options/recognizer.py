"""Options of recognizers: those of the config files in a model's directory, with Kaldi's names and defaults."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from ctypes import c_float
from dataclasses import dataclass

from nnet3.base.options.declaring import Options, again, option
from nnet3.base.text.values import Boolean, Integer, Integers, Number, Text, above, at_least, bounds, choice, within

_BOOLEAN, _COUNT, _PERIOD = Boolean(), Integer(at_least(0)), Integer(at_least(1))
_MILLISECONDS, _COST, _SECONDS = Number(within(0.1, 1000)), Number(above(0)), Number(at_least(0))
_WINDOWS = ("povey", "hanning", "hamming", "sine", "rectangular", "blackman")
_MOST_BINS = 1024
_MOST_SAMPLES = 1 << 20  # of a frame


@dataclass(frozen=True)
class FrameOptions(Options):
    """Cutting samples into frames, and mel bins; samples are in the scale of 16 bits. Dither is off unless asked for.

    `high_freq` counts from half the sample frequency down if it is not above 0.
    """

    sample_frequency: float = option(16000.0, Number(within(100, 1e6)), "Samples per second.", unit="Hz")
    frame_length: float = option(25.0, _MILLISECONDS, "Length of a frame.", unit="ms")
    frame_shift: float = option(10.0, _MILLISECONDS, "From frame to frame.", unit="ms")
    dither: float = option(0.0, Number(at_least(0)), "Standard deviation of noise on samples.")
    preemphasis_coefficient: float = option(0.97, Number(within(0, 1)), "Share of the sample before to subtract.")
    remove_dc_offset: bool = option(True, _BOOLEAN, "Subtract the mean of each frame.")
    window_type: str = option("povey", choice(*_WINDOWS), "Window of a frame.")
    blackman_coeff: float = option(0.42, Number(), "Coefficient of the blackman window.")
    round_to_power_of_two: bool = option(True, _BOOLEAN, "Pad frames with zeros for the Fourier transform.")
    snip_edges: bool = option(True, _BOOLEAN, "No frame reaches beyond the samples.")
    allow_downsample: bool = option(True, _BOOLEAN, "Take audio of a higher rate.")
    allow_upsample: bool = option(True, _BOOLEAN, "Take audio of a lower rate.")
    num_mel_bins: int = option(23, Integer(within(3, _MOST_BINS)), "Mel bins.")
    low_freq: float = option(20.0, Number(at_least(0)), "Where the first bin begins.", unit="Hz")
    high_freq: float = option(0.0, Number(), "Where the last bin ends.", unit="Hz")
    raw_energy: bool = option(True, _BOOLEAN, "Energy before preemphasis and window.")
    energy_floor: float = option(0.0, Number(at_least(0)), "Least energy (0: none).")
    htk_compat: bool = option(False, _BOOLEAN, "Energy or C0 last.")

    @property
    def frame_samples(self) -> int:
        """Samples per frame."""
        return _samples(self.sample_frequency, self.frame_length)

    @property
    def shift_samples(self) -> int:
        """Samples from frame to frame."""
        return _samples(self.sample_frequency, self.frame_shift)

    @property
    def transform_samples(self) -> int:
        """Samples per Fourier transform."""
        return 1 << (self.frame_samples - 1).bit_length() if self.round_to_power_of_two else self.frame_samples

    @property
    def start_sample(self) -> int:
        """The sample at which frame 0 begins. Samples before sample 0 are mirrored."""
        return 0 if self.snip_edges else self.shift_samples // 2 - self.frame_samples // 2

    def conflicts(self) -> Iterator[tuple[str, str]]:
        nyquist = self.sample_frequency / 2
        high = self.high_freq if self.high_freq > 0 else nyquist + self.high_freq
        if not self.low_freq < high <= nyquist:
            yield (
                "high_freq" if self.low_freq < nyquist else "low_freq",
                f"mel bins must lie between 0 and half the sample frequency, {nyquist:g} Hz, got {self.low_freq:g} to "
                f"{high:g} Hz",
            )
        for name, least in (("frame_length", 2), ("frame_shift", 1)):
            samples = self.sample_frequency * getattr(self, name) / 1000
            if not least <= samples <= _MOST_SAMPLES:
                yield name, f"{name} must be {least} to {_MOST_SAMPLES} samples, got {samples:g}"
        if self.transform_samples % 2:
            yield (
                "round_to_power_of_two",
                f"a Fourier transform takes an even number of samples, and frames have {self.frame_samples}: use "
                "round_to_power_of_two, or another frame_length",
            )


def _samples(frequency: float, milliseconds: float) -> int:
    """Returns whole samples, computed in float32 as Kaldi does it."""
    per_millisecond = c_float(c_float(frequency).value * c_float(0.001).value).value
    return int(c_float(per_millisecond * c_float(milliseconds).value).value)


@dataclass(frozen=True)
class MfccOptions(FrameOptions):
    """Mel frequency cepstral coefficients (mfcc.conf)."""

    num_ceps: int = option(13, Integer(within(1, _MOST_BINS)), "Coefficients, C0 included.")
    use_energy: bool = option(True, _BOOLEAN, "Energy instead of C0.")
    cepstral_lifter: float = option(22.0, Number(at_least(0)), "Scales coefficients (0: not).")

    @property
    def dim(self) -> int:
        """Numbers per frame."""
        return self.num_ceps

    def conflicts(self) -> Iterator[tuple[str, str]]:
        yield from super().conflicts()
        if self.num_ceps > self.num_mel_bins:
            yield "num_ceps", f"num_ceps must be at most num_mel_bins, {self.num_mel_bins}, got {self.num_ceps}"


@dataclass(frozen=True)
class FbankOptions(FrameOptions):
    """Energies of mel bins (fbank.conf)."""

    use_energy: bool = option(False, _BOOLEAN, "Energy as one number more.")
    use_log_fbank: bool = option(True, _BOOLEAN, "Logarithms of energies.")
    use_power: bool = option(True, _BOOLEAN, "Power instead of magnitude.")

    @property
    def dim(self) -> int:
        """Numbers per frame."""
        return self.num_mel_bins + self.use_energy


@dataclass(frozen=True)
class PlpOptions(FrameOptions):
    """Perceptual linear prediction: cepstra that predict energies as loud as they are heard (plp.conf)."""

    lpc_order: int = option(12, Integer(within(1, _MOST_BINS)), "Order of linear prediction.")
    num_ceps: int = option(13, Integer(within(2, _MOST_BINS)), "Coefficients, C0 included.")
    use_energy: bool = option(True, _BOOLEAN, "Energy instead of C0.")
    compress_factor: float = option(0.33333, Number(above(0)), "Power of the energies of mel bins.")
    cepstral_lifter: float = option(22.0, Number(at_least(0)), "Scales coefficients (0: not).")
    cepstral_scale: float = option(1.0, Number(), "Scales coefficients too.")

    @property
    def dim(self) -> int:
        """Numbers per frame."""
        return self.num_ceps

    def conflicts(self) -> Iterator[tuple[str, str]]:
        yield from super().conflicts()
        if self.num_ceps > self.lpc_order + 1:
            yield "num_ceps", f"num_ceps must be at most lpc_order + 1, {self.lpc_order + 1}, got {self.num_ceps}"


FeatureOptions = MfccOptions | FbankOptions | PlpOptions
"""Options of any kind of features."""


@dataclass(frozen=True)
class SpliceOptions(Options):
    """Frames that are put side by side for ivectors (splice.conf)."""

    left_context: int = option(4, Integer(within(0, 1000)), "Frames before.", unit="frames")
    right_context: int = option(4, Integer(within(0, 1000)), "Frames behind.", unit="frames")


@dataclass(frozen=True, kw_only=True)
class CmvnOptions(Options):
    """Normalisation of mean and variance."""

    normalize_mean: bool = option(True, _BOOLEAN, "Subtract the mean.", flag="norm-means")
    normalize_variance: bool = option(False, _BOOLEAN, "Divide by the standard deviation.", flag="norm-vars")
    skip_dims: tuple[int, ...] = option(
        (), Integers(separators=":", with_gaps=True), "Columns that are left alone, such as 0:1."
    )

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.normalize_variance and not self.normalize_mean:
            yield "normalize_variance", "norm-vars needs norm-means"
        if min(self.skip_dims, default=0) < 0:
            yield "skip_dims", f"columns count from 0, got {min(self.skip_dims)}"


@dataclass(frozen=True)
class OnlineCmvnOptions(CmvnOptions):
    """Online normalisation of mean and variance (online_cmvn.conf).

    The statistics of frame t are those of the last `cmn_window` frames up to t. As long as these are fewer, statistics
    of the speaker and then of everybody count for the rest, at most for `speaker_frames` and `global_frames` frames.
    """

    cmn_window: int = option(600, Integer(within(1, 10**6)), "Frames of the window.", unit="frames")
    speaker_frames: int = option(600, _COUNT, "Most frames for which the speaker's statistics count.", unit="frames")
    global_frames: int = option(200, _COUNT, "Most frames for which everybody's statistics count.", unit="frames")
    min_energy: float = option(
        -math.inf, Number(finite=False), "C0 of frames with statistics of their own; Vosk: 50.", flag="cmn-min-energy"
    )


@dataclass(frozen=True)
class IvectorOptions(Options):
    """Online ivectors.

    `use_most_recent_ivector`: one is estimated for the newest frame that is asked for; else one every `ivector_period`
    frames, for what comes up to it. `max_count` > 0: beyond so many frames times `posterior_scale` the prior grows
    with the data.
    """

    num_gselect: int = option(5, _PERIOD, "Gaussians per frame.")
    min_post: float = option(0.025, Number(bounds(minimum=0, below=0.5)), "Least posterior of a Gaussian.")
    posterior_scale: float = option(0.1, Number(bounds(above=0, maximum=1)), "Scale of posteriors: frames are alike.")
    max_count: float = option(0.0, Number(at_least(0)), "Frames times posterior_scale that count in full (0: all).")
    ivector_period: int = option(10, _PERIOD, "Frames per ivector.", unit="frames")
    use_most_recent_ivector: bool = option(True, _BOOLEAN, "Estimate for the newest frame.")
    greedy_ivector_extractor: bool = option(False, _BOOLEAN, "Take in all frames that are there.")
    max_remembered_frames: float = option(
        1000.0, Number(at_least(0)), "Frames of earlier utterances that count.", unit="frames"
    )
    online_cmvn_iextractor: bool = option(False, _BOOLEAN, "Statistics from normalised features.")

    @property
    def newest_only(self) -> bool:
        """True if a frame gets the newest estimate: taking in all available frames implies the newest estimate."""
        return self.use_most_recent_ivector or self.greedy_ivector_extractor


@dataclass(frozen=True)
class SearchOptions(Options):
    """The search for words and its lattices. Costs are negative logarithms."""

    beam: float = option(16.0, _COST, "Tokens this much worse than the best are dropped.")
    max_active: int = option(2**31 - 1, Integer(at_least(2)), "Most tokens per row.")
    min_active: int = option(200, _COUNT, "Tokens that the beam must leave.")
    lattice_beam: float = option(10.0, _COST, "Paths this much worse than the best are no part of lattices.")
    prune_interval: int = option(25, _PERIOD, "Rows between prunings of the lattice.", unit="rows")
    beam_delta: float = option(0.5, _COST, "Added to the beam that max_active gives.")
    max_mem: int = option(
        50_000_000,
        _COUNT,
        "Most memory of determinizing a lattice, as Kaldi counts it (here up to 8 times as much); beyond it, or beyond "
        "the work that it allows, its beam narrows (0: any).",
        unit="bytes",
    )

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.min_active > self.max_active:
            yield "min_active", f"min_active must be at most max_active, {self.max_active}, got {self.min_active}"


@dataclass(frozen=True)
class DecodingOptions(SearchOptions):
    """The search for words, and the network's chunks (model.conf). Costs are negative logarithms."""

    acoustic_scale: float = option(0.1, Number(above(0)), "Scale of the network's scores; chain models: 1.")
    frame_subsampling_factor: int = option(1, Integer(within(1, 1000)), "Frames per row.", unit="frames")
    frames_per_chunk: int = option(24, Integer(within(1, 100000)), "Frames per chunk.", unit="frames")
    extra_left_context_initial: int = option(
        0, Integer(within(0, 1000000)), "Frames more at the left of the first chunk.", unit="frames"
    )
    determinize_max_delay: int = option(
        60, _PERIOD, "Rows after which the next piece of the lattice is made.", unit="rows"
    )
    determinize_min_chunk_size: int = option(20, _PERIOD, "Least rows of a piece of the lattice.", unit="rows")
    determinize_max_active: int = option(200, _COUNT, "Most tokens where a piece of the lattice ends.")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        yield from super().conflicts()
        if self.determinize_min_chunk_size >= self.determinize_max_delay:
            most = self.determinize_max_delay
            yield "determinize_min_chunk_size", f"must be below determinize_max_delay, {most}"


@dataclass(frozen=True)
class LatticeOptions(Options):
    """Options for writing lattices. A determinized lattice has every sequence of words once, with its best path."""

    determinize_lattice: bool = option(True, _BOOLEAN, "Determinize (false: write the lattice of the search).")
    word_determinize: bool = option(True, _BOOLEAN, "Each sequence of words once.")
    phone_determinize: bool = option(
        True, _BOOLEAN, "Each sequence of phones and words once, for --word-determinize=false."
    )
    minimize: bool = option(False, _BOOLEAN, "Merge states from which all goes on alike.")


@dataclass(frozen=True)
class SilenceWeightingOptions(Options):
    """Weights in ivectors of frames that the best path of the search takes for silence (ivector-silence-weighting)."""

    silence_phones: tuple[int, ...] = option(
        (),
        Integers(separators=":,", with_gaps=True),
        "Phones that are silence, such as 1:2:3 (none: all frames count).",
    )
    silence_weight: float = option(1.0, Number(), "Weight of a frame of silence; Vosk: 0.001.")
    max_state_duration: float = option(
        -1.0, Number(), "Rows of one transition-id that count as silence, or more (<= 0: any is speech).", unit="rows"
    )

    @property
    def is_active(self) -> bool:
        """True if frames have weights."""
        return len(self.silence_phones) > 0 and self.silence_weight != 1


@dataclass(frozen=True)
class OnlineFeatureOptions(Options):
    """Features of a directory of Kaldi's, and the files that say more (online.conf).

    Directories move, so of a file only the name counts: it lies in the directory's own folders.
    """

    feature_type: str = option("mfcc", choice("mfcc", "fbank", "plp"), "Features.")
    mfcc_config: str = option("", Text(), "Options of MFCCs.", metavar="FILE")
    fbank_config: str = option("", Text(), "Options of mel bins.", metavar="FILE")
    plp_config: str = option("", Text(), "Options of PLP.", metavar="FILE")
    cmvn_config: str = option(
        "", Text(), "Options of online CMVN of the network's input (none: no CMVN).", metavar="FILE"
    )
    global_cmvn_stats: str = option("", Text(), "Statistics of online CMVN of the network's input.", metavar="FILE")
    ivector_extraction_config: str = option("", Text(), "Options of ivectors.", metavar="FILE")
    add_pitch: bool = option(False, _BOOLEAN, "Pitch behind the features, in the network's input.")
    online_pitch_config: str = option("", Text(), "Options of pitch.", metavar="FILE")
    frame_subsampling_factor: int = again(
        DecodingOptions, "frame_subsampling_factor", 0, kind=Integer(within(0, 1000)),
        help="Frames per row (0: what the file frame_subsampling_factor says).",
    )  # fmt: skip

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.cmvn_config and not self.global_cmvn_stats:
            yield "cmvn_config", "cmvn_config needs global_cmvn_stats"


@dataclass(frozen=True)
class ExtractorFileOptions(Options):
    """The files of an extractor of ivectors (ivector_extractor.conf); only their names count."""

    splice_config: str = option("", Text(), "Frames that are put side by side.", metavar="FILE")
    cmvn_config: str = option("", Text(), "Options of online CMVN.", metavar="FILE")
    lda_matrix: str = option("", Text(), "The transform, final.mat.", metavar="FILE")
    global_cmvn_stats: str = option("", Text(), "Statistics of online CMVN.", metavar="FILE")
    diag_ubm: str = option("", Text(), "The background model, final.dubm.", metavar="FILE")
    ivector_extractor: str = option("", Text(), "The extractor, final.ie.", metavar="FILE")


@dataclass(frozen=True)
class EndpointRule(Options):
    """A rule by which an utterance has ended: silence at its end, length, and the cost of ending now, all of these."""

    must_contain_nonsilence: bool = option(True, _BOOLEAN, "Something was said.")
    min_trailing_silence: float = option(1.0, _SECONDS, "Silence at the end.", unit="s")
    max_relative_cost: float = option(
        math.inf, Number(bounds(minimum=0), finite=False), "Cost of ending now less that of the best path."
    )
    min_utterance_length: float = option(0.0, _SECONDS, "Length.", unit="s")


#: The rules of Kaldi's, one of which suffices.
ENDPOINT_RULES: Mapping[str, EndpointRule] = {
    "rule1": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=5.0),
    "rule2": EndpointRule(min_trailing_silence=0.5, max_relative_cost=2.0),
    "rule3": EndpointRule(min_trailing_silence=1.0, max_relative_cost=8.0),
    "rule4": EndpointRule(min_trailing_silence=2.0),
    "rule5": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=0.0, min_utterance_length=20.0),
}


@dataclass(frozen=True)
class SilenceOptions(Options):
    """Phones that are silence."""

    silence_phones: tuple[int, ...] = option(
        (), Integers(separators=":", with_gaps=True), "Phones that are silence, such as 1:2:3."
    )

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if len(set(self.silence_phones)) < len(self.silence_phones):
            yield "silence_phones", "a silence phone is given twice"
        if min(self.silence_phones, default=1) < 1:
            yield "silence_phones", f"phones count from 1, got {min(self.silence_phones)}"
