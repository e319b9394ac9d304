"""Times of works that take turns, and what the machine can do at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch

Work = Callable[[], object]
Times = dict[str, list[float]]  # by work, in seconds, one for each round


def in_turns(
    works: Mapping[str, Work], seconds: float, least_rounds: int = 3, most_rounds: int = 200, period: int = 1
) -> Times:
    """Runs every work once in each round, for about so many seconds; the first round does not count.

    The number of rounds is a multiple of `period`.
    """
    for work in works.values():
        work()
    times: Times = {name: [] for name in works}
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < least_rounds or rounds % period or (rounds < most_rounds and time.perf_counter() < end):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
        rounds += 1
    return times


def peak_gflops(seconds: float, size: int = 1024) -> float:
    """The rate of a large product of float32 matrices, with PyTorch's threads."""
    a, b, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
    times = in_turns({"product": lambda: torch.mm(a, b, out=out)}, seconds)["product"]
    return 2 * size**3 / min(times) / 1e9


def gigabytes_per_second(seconds: float, count: int = 2**25) -> float:
    """The rate at which memory is read and written by a large copy."""
    a, out = torch.randn(count), torch.empty(count)
    times = in_turns({"copy": lambda: out.copy_(a)}, seconds)["copy"]
    return 2 * 4 * count / min(times) / 1e9


def spread(times: list[float]) -> tuple[float, float, float]:
    """The median, and the quarters below and above it."""
    low, median, high = np.quantile(times, [0.25, 0.5, 0.75])
    return float(median), float(low), float(high)


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise OSError(f"this system does not say {field}")


def peak_memory_of(work: Work, before: int) -> int:
    """The most memory of this process, in bytes, while a work runs twice, beyond what it had before."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    work()
    work()
    return _status("VmHWM") - before


def memory_now() -> int:
    return _status("VmRSS")
