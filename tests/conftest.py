"""Settings shared by all tests: hypothesis profile and one PyTorch thread per test process."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "nnet3", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("nnet3")
torch.set_num_threads(1)
