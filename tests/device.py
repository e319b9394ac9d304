"""The device of tests that compare with golden data: TEST_DEVICE=cuda runs them on a GPU (`make cuda`)."""

from __future__ import annotations

import os

import torch

DEVICE = torch.device(os.environ.get("TEST_DEVICE", "cpu"))
