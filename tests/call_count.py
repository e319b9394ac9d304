"""How many calls something takes, of Python functions and built-in ones: array code takes a fixed number of them."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_calls(function: Callable[..., Any], *args: Any, warm_up: bool = True) -> int:
    """The number of calls made while `function(*args)` runs, without those that only the first run in a process makes.

    Therefore it runs twice (`warm_up`: not if it changes its arguments); garbage is not collected meanwhile, because
    when that happens depends on what ran before.
    """
    calls = 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    if warm_up:
        function(*args)
    was_enabled = gc.isenabled()
    gc.disable()
    sys.setprofile(profile)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
        if was_enabled:
            gc.enable()
    return calls


def count_calls_of(counted: Callable[..., Any], function: Callable[..., Any], *args: Any) -> int:
    """The number of calls of `counted`, a Python function, made while `function(*args)` runs, however it is reached."""
    code, calls = inspect.unwrap(counted).__code__, 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is code

    sys.setprofile(profile)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return calls


def assert_calls_in_proportion(work: Callable[[int], Callable[[], Any]], small: int, large: int) -> None:
    """The calls that work takes grow at most in proportion to its size, or a fifth more.

    `work(size)` prepares, and returns what is to be counted.
    """
    few, many = count_calls(work(small)), count_calls(work(large))
    assert many * small <= 1.2 * few * large, f"{few} calls for size {small}, {many} for size {large}"
