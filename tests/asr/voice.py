"""A voice that is made, for tests of pitch."""

from __future__ import annotations

import numpy as np

from nnet3.speech.features.audio import Samples


def voice(seconds: float = 0.5) -> Samples:
    """A voice whose pitch goes up and down, and that is nearly silent for a while."""
    times = np.arange(int(16000 * seconds)) / 16000
    phase = 2 * np.pi * np.cumsum(150 + 40 * np.sin(2 * np.pi * 3 * times)) / 16000
    samples = 4000 * np.sin(phase) + 2500 * np.sin(2 * phase + 1) + 1200 * np.sin(3 * phase)
    samples[3000:4200] *= 0.01
    return np.round(samples).astype(np.float32)
