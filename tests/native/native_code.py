"""Native code in tests: a mark for those that need a compiler, and what runs operations once."""

from __future__ import annotations

import pytest

from nnet3.native.library import library
from nnet3.native.operations import Operations
from nnet3.runtime.loop_turns import STAYS
from nnet3.runtime.native_runs import NativeRun

needs_native_code = pytest.mark.skipif(library() is None, reason="there is no native code")


def run_once(operations: Operations | None) -> None:
    """Run operations of which there must be some."""
    assert operations is not None
    NativeRun([(row, STAYS) for row in operations], 1)(0, 1)
