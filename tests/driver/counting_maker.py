"""Computations that are made and counted, and run."""

from __future__ import annotations

import numpy as np

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime import NnetComputer
from tests.runtime.scale_program import FEATURES, forward, scale_program
from tests.runtime.toy_kernels import Scale, net


class Maker:
    """Makes computations and counts them."""

    def __init__(self, **fingerprint: str) -> None:
        self.count = 0
        self.fingerprint = fingerprint

    def __call__(self) -> NnetComputation:
        self.count += 1
        computation = scale_program()
        computation.fingerprint = dict(self.fingerprint)
        return computation


def run(computation: NnetComputation) -> None:
    computer = NnetComputer(computation, net(scale=Scale(2.0)), net(scale=Scale(0.0)))
    np.testing.assert_array_equal(forward(computer), 2 * FEATURES)
