"""Changes of single vectors and matrices that Kaldi's copying programs know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_LEAST = np.float32(1e-20)  # of what logarithms are taken of


@dataclass(frozen=True)
class VectorChange:
    """Cuts a vector off at a length or fills it up with zeros (-1: neither), and multiplies it."""

    length: int = -1
    scale: float = 1.0

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        if self.length >= 0:
            vector = np.pad(vector[: self.length], (0, max(self.length - len(vector), 0)))
        return vector * np.float32(self.scale)


@dataclass(frozen=True)
class MatrixChange:
    """Multiplies a matrix, then takes logarithms, exponentials or the softmax of each row, then powers."""

    scale: float = 1.0
    apply_log: bool = False
    apply_exp: bool = False
    apply_softmax: bool = False
    apply_power: float = 1.0

    def __call__(self, matrix: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            changed = matrix * np.float32(self.scale)
            if self.apply_log:
                changed = np.log(np.maximum(changed, _LEAST))
            if self.apply_exp:
                changed = np.exp(changed)
            if self.apply_softmax:
                changed = np.exp(changed - changed.max(axis=1, keepdims=True, initial=-np.inf))
                changed /= changed.sum(axis=1, keepdims=True)
            return changed if self.apply_power == 1 else np.power(changed, np.float32(self.apply_power))
