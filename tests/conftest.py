"""Settings shared by all tests: hypothesis profile and one PyTorch thread per test process."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "nnet3", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("nnet3")
torch.set_num_threads(1)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much of the golden data was compared, and why anything was left out."""
    ran = [r for r in terminalreporter.stats.get("passed", []) if "golden" in r.nodeid]
    left_out = [r for r in terminalreporter.stats.get("skipped", []) if "golden" in r.nodeid]
    if ran or left_out:
        terminalreporter.write_line(f"golden data: {len(ran)} comparisons agreed, {len(left_out)} were skipped")
    for reason in sorted({str(r.longrepr[2]) for r in left_out if isinstance(r.longrepr, tuple)}):
        terminalreporter.write_line(f"  {reason}")
