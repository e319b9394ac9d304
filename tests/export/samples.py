"""Samples of audio."""

from __future__ import annotations

import numpy as np

RATE = 8000


def speechlike(samples: int, seed: int = 0) -> np.ndarray:
    """Returns silence, hum, noise that grows louder and clicks, (samples,), in the scale of 16 bits."""
    random, times = np.random.default_rng(seed), np.arange(samples) / RATE
    noise = 3 + 800 * np.maximum(np.sin(12 * times + seed), 0)
    wave = noise * random.standard_normal(samples) + 40 * np.sin(300 * times) + 25
    wave[:: samples // 3 + 1] += 9000
    wave[samples // 2 : samples // 2 + 300] = 0
    return np.round(wave).astype(np.float32)
