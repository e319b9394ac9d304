"""Settings of pitch in a recognizer's model directory."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from nnet3.base.options.pitch import PitchFeatureOptions, PitchOptions
from nnet3.speech.features.conf_file import read_conf
from nnet3.speech.features.pitch_features import Noise, PitchFeatureStream, WithPitch


class PitchSettings(NamedTuple):
    """Options of the pitch behind the features of a network's input."""

    options: PitchOptions
    features: PitchFeatureOptions

    def columns(self, dim: int, rate: float, noise: Noise | None = None) -> WithPitch:
        """Returns a stage that appends pitch to `dim` features of audio at `rate` Hz.

        Without `noise` the stage draws its own, equal for every stage.
        """
        noise = noise or np.random.default_rng(0).standard_normal
        return WithPitch(PitchFeatureStream(self.options, self.features, rate, noise), dim)


def read_pitch_settings(path: Path) -> PitchSettings:
    """Returns the settings of pitch.conf or online_pitch.conf. Raises as `read_conf` does."""
    sections = read_conf(path, {"": PitchOptions(), "/features": PitchFeatureOptions()})
    return PitchSettings(cast(PitchOptions, sections[""]), cast(PitchFeatureOptions, sections["/features"]))
