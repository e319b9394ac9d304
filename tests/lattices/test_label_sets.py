"""Memory that is counted: what is held now, and all that was ever held."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.speech.lattices.label_sets import Memory, TooLargeError


def test_what_is_released_may_be_held_again() -> None:
    memory = Memory(100)
    for _ in range(5):
        memory.hold(20, 5)
        memory.release(20, 5)
    memory.hold(19, 5)
    memory.check(1, 5)
    memory.check(1, 5)
    with pytest.raises(TooLargeError):
        memory.check(2, 5)


def test_work_is_never_given_back() -> None:
    memory = Memory(np.inf, 100)
    memory.hold(10, 5)
    memory.release(10, 5)
    memory.check(10, 5)
    with pytest.raises(TooLargeError):
        memory.hold(1, 1)
