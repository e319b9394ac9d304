"""Tests in a forked process, which has PyTorch and pytest loaded already but nothing of the project."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy
import hypothesis.strategies
import numpy as np
import pytest
import torch

PRELOADED = (hypothesis.strategies, hypothesis.extra.numpy, np, torch)
OPTIONS = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header",
           "-W", "ignore::pytest.PytestAssertRewriteWarning")  # fmt: skip
MOST_MEMORY = 24 << 30  # address space, of which PyTorch reserves much


def run_tests(
    root: Path, environment: Mapping[str, str], arguments: Sequence[str], plugins: Sequence[Any], output: Path,
    seconds: float, prepare: Callable[[], Callable[[], None]] | None = None,
) -> int | None:  # fmt: skip
    """The exit status of pytest in a forked process, None after `seconds`; what it prints goes to `output`.

    `prepare` runs in that process before anything of the project is imported; what it returns runs at the end.
    """
    process = os.fork()
    if process == 0:
        status = 70
        try:
            status = _child(root, environment, arguments, plugins, output, prepare)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    pause = 0.005
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(0.1, 1.5 * pause)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def _child(
    root: Path, environment: Mapping[str, str], arguments: Sequence[str], plugins: Sequence[Any], output: Path,
    prepare: Callable[[], Callable[[], None]] | None,
) -> int:  # fmt: skip
    os.setsid()
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    os.chdir(root)
    os.environ.update(environment)
    sys.path.insert(0, environment["PYTHONPATH"])
    finish = prepare() if prepare else None
    status = int(pytest.main([*OPTIONS, *arguments], plugins=[*plugins]))
    if finish:
        finish()
    sys.stdout.flush()
    return status
