"""How many calls something takes, of Python functions and built-in ones: array code takes a fixed number of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_calls(function: Callable[..., Any], *args: Any) -> int:
    """The number of calls made while `function(*args)` runs."""
    calls = 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return calls
