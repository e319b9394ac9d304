"""Native code in tests: a mark for those that need a compiler, and what runs operations once."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.native.library import library
from nnet3.native.operations import NUM_MATRICES, Operations

needs_native_code = pytest.mark.skipif(library() is None, reason="there is no C compiler, so no native code")


def run_once(operations: Operations | None) -> None:
    """Run operations of which there must be some."""
    functions = library()
    assert operations is not None
    assert functions is not None
    rows = np.array(operations, np.int64)
    steps = np.zeros((len(rows), NUM_MATRICES), np.int64)
    functions.nnet3_run(rows.ctypes.data, steps.ctypes.data, 0, len(rows), 0, 1)
