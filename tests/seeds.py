"""One seed for all random numbers of tests: each test draws the same numbers in every run and in every order of tests.

What a test draws depends on its name and on `SHIFT`, the environment variable TEST_SEED: a good test holds for all.
"""

from __future__ import annotations

import os
import random
from typing import Any
from zlib import crc32

import numpy as np
import torch
from hypothesis import register_random

from tests.device import DEVICE

SHIFT = int(os.environ.get("TEST_SEED", "0"))

#: For tests to draw from; NumPy's own global generator is not for new code.
RANDOM = np.random.default_rng(SHIFT)


def shifted(seed: int) -> int:
    """A seed that a test names, for random networks and programs; TEST_SEED makes it another."""
    return seed + 10**8 * SHIFT


def seed_all(name: str) -> None:
    """Let Python, NumPy, PyTorch and `RANDOM` start anew, from a number made of `name` and TEST_SEED."""
    seed = (crc32(name.encode(errors="surrogatepass")) + SHIFT) % 2**32
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    _OURS.seed(seed)


class _Ours:
    """`RANDOM` and PyTorch's global generator, for hypothesis: it lets each example begin with the same numbers."""

    def seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed + SHIFT)  # torch.manual_seed keeps the stack for each kind of device
        if DEVICE.type == "cuda":
            torch.cuda.manual_seed_all(seed + SHIFT)
        RANDOM.bit_generator.state = np.random.PCG64(seed + SHIFT).state

    def getstate(self) -> Any:
        return torch.get_rng_state(), RANDOM.bit_generator.state

    def setstate(self, state: Any) -> None:
        torch.set_rng_state(state[0])
        RANDOM.bit_generator.state = state[1]


_OURS = _Ours()  # hypothesis keeps no reference
register_random(_OURS)
