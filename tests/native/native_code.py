"""Native code in tests: a mark for those that need a compiler, and what runs operations once."""

from __future__ import annotations

import pytest

from nnet3.base.native.library import library
from nnet3.base.native.operations import Operations
from nnet3.engine.runtime.native_runs import NativeRun
from nnet3.engine.runtime.view_operations import of_memory

needs_native_code = pytest.mark.skipif(library() is None, reason="there is no native code")


def run_once(operations: Operations | None) -> None:
    """Run operations of which there must be some."""
    assert operations is not None
    NativeRun(of_memory(operations))(0, 1)
