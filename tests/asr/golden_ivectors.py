"""What the recognizer of Vosk's wheel, which has Kaldi inside, made of features with a small random extractor."""

from __future__ import annotations

from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent / "golden"
ARRAYS = dict(np.load(GOLDEN / "arrays.npz"))
FEATURES = ARRAYS["features"]
NEAR = {"rtol": 1e-5, "atol": 1e-5}  # of values of up to 4
