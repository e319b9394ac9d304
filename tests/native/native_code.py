"""Native code in tests: a mark for those that need a compiler, what runs operations once, and matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3.base.native.library import library
from nnet3.base.native.operations import Operations
from nnet3.engine.runtime.native_runs import NativeRun
from nnet3.engine.runtime.view_operations import ViewOperations

needs_native_code = pytest.mark.skipif(library() is None, reason="there is no native code")


def run_once(operations: Operations | None) -> None:
    """Run operations of which there must be some."""
    assert operations is not None
    NativeRun(ViewOperations(np.array(operations)))(0, 1)


def matrix(rows: int, columns: int, scale: float = 1.0) -> Tensor:
    """Random numbers as columns of a wider matrix, between which lie NaNs."""
    wide = torch.full((rows, columns + 5), math.nan)
    part = wide[:, 2 : 2 + columns]
    part.normal_(std=scale)
    return part
