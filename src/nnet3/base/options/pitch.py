"""Options of the pitch of voices, with Kaldi's names and defaults (pitch.conf, online_pitch.conf)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnet3.base.options.declaring import Options, again, option
from nnet3.base.options.recognizer import FrameOptions
from nnet3.base.text.values import Boolean, Integer, Number, above, at_least, within

_BOOLEAN, _COUNT, _SCALE = Boolean(), Integer(at_least(0)), Number()
_FREQUENCY = Number(above(0))


@dataclass(frozen=True)
class PitchOptions(Options):
    """Finding the pitch of each frame: a best path over lags, the closer to periodic the better.

    A path that changes by one step of `delta_pitch` pays `penalty_factor` times the square of its logarithm.
    """

    sample_frequency: float = again(FrameOptions, "sample_frequency", 16000.0)
    frame_length: float = again(FrameOptions, "frame_length", 25.0)
    frame_shift: float = again(FrameOptions, "frame_shift", 10.0)
    preemphasis_coefficient: float = again(FrameOptions, "preemphasis_coefficient", 0.0)
    min_f0: float = option(50.0, _FREQUENCY, "The lowest pitch.", unit="Hz")
    max_f0: float = option(400.0, _FREQUENCY, "The highest pitch.", unit="Hz")
    soft_min_f0: float = option(10.0, Number(at_least(0)), "Makes low pitches cost more.", unit="Hz")
    penalty_factor: float = option(0.1, Number(at_least(0)), "Cost of changes of the pitch.")
    lowpass_cutoff: float = option(1000.0, _FREQUENCY, "Frequencies above it are left away.", unit="Hz")
    resample_frequency: float = option(4000.0, Number(within(1000, 1e5)), "Samples that are looked at.", unit="Hz")
    delta_pitch: float = option(0.005, Number(within(1e-4, 1)), "Relative distance of the pitches that are told apart.")
    nccf_ballast: float = option(7000.0, Number(at_least(0)), "The larger, the less quiet frames count.")
    nccf_ballast_online: bool = option(False, _BOOLEAN, "Loudness up to each frame, not of a whole chunk.")
    lowpass_filter_width: int = option(1, Integer(within(1, 100)), "Zero crossings of the filter before resampling.")
    upsample_filter_width: int = option(5, Integer(within(1, 100)), "Zero crossings of the filter between lags.")
    frames_per_chunk: int = option(
        0, _COUNT, "Take audio in so many frames at a time, as a recognizer does (0: whole)."
    )
    simulate_first_pass_online: bool = option(
        False, _BOOLEAN, "What is known of a frame when it comes, with --frames-per-chunk."
    )
    recompute_frame: int = option(500, _COUNT, "After so many frames, their loudness is estimated anew.")
    max_frames_latency: int = option(0, _COUNT, "Frames to wait for, at most, until a pitch is sure.")
    snip_edges: bool = again(FrameOptions, "snip_edges", True)

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.min_f0 >= self.max_f0:
            yield "min_f0", f"min_f0 must be below max_f0, {self.max_f0:g}, got {self.min_f0:g}"
        if 2 * self.lowpass_cutoff > min(self.sample_frequency, self.resample_frequency):
            yield (
                "lowpass_cutoff",
                "lowpass_cutoff must be at most half of both sample frequencies, "
                f"{self.sample_frequency:g} and {self.resample_frequency:g}, got {self.lowpass_cutoff:g}",
            )
        if self.resample_frequency / self.max_f0 <= self.upsample_filter_width / 2:
            yield "max_f0", f"max_f0 is too high for a resample_frequency of {self.resample_frequency:g}"
        if self.simulate_first_pass_online and not self.frames_per_chunk:
            yield "simulate_first_pass_online", "simulate_first_pass_online needs frames_per_chunk above 0"
        for name in ("frame_length", "frame_shift"):
            if not self.resample_frequency * getattr(self, name) / 1000 >= 1:
                yield name, f"{name} must be a sample of {self.resample_frequency:g} Hz or more"

    @property
    def window_samples(self) -> int:
        """Samples of a frame, without its lags, after resampling."""
        return int(self.resample_frequency * self.frame_length / 1000)

    @property
    def shift_samples(self) -> int:
        """Samples from frame to frame, after resampling."""
        return int(self.resample_frequency * self.frame_shift / 1000)


@dataclass(frozen=True)
class PitchFeatureOptions(Options):
    """Features of pitches: up to four columns a frame, in the order of their `add_` options."""

    pitch_scale: float = option(2.0, _SCALE, "Scale of the normalised logarithm of the pitch.")
    pov_scale: float = option(2.0, _SCALE, "Scale of the feature of voicing.")
    pov_offset: float = option(0.0, _SCALE, "Added to the feature of voicing.")
    delta_pitch_scale: float = option(10.0, _SCALE, "Scale of the change of the logarithm of the pitch.")
    delta_pitch_noise_stddev: float = option(0.005, Number(at_least(0)), "Noise on changes, before their scale.")
    normalization_left_context: int = option(75, _COUNT, "Frames before, for the mean.", unit="frames")
    normalization_right_context: int = option(75, _COUNT, "Frames behind, for the mean.", unit="frames")
    delta_window: int = option(2, Integer(within(1, 1000)), "Frames to each side, for changes.", unit="frames")
    delay: int = option(0, Integer(within(0, 1_000_000)), "Frames by which features come later.", unit="frames")
    add_pov_feature: bool = option(True, _BOOLEAN, "Voicing.")
    add_normalized_log_pitch: bool = option(True, _BOOLEAN, "The logarithm of the pitch, less its mean.")
    add_delta_pitch: bool = option(True, _BOOLEAN, "The change of the logarithm of the pitch.")
    add_raw_log_pitch: bool = option(False, _BOOLEAN, "The logarithm of the pitch.")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if not self.dim:
            yield "add_pov_feature", "at least one of the features of pitch must be added"

    @property
    def dim(self) -> int:
        """The number of features."""
        return sum((self.add_pov_feature, self.add_normalized_log_pitch, self.add_delta_pitch, self.add_raw_log_pitch))
