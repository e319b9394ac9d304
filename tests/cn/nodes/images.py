"""Images as columns and as PyTorch has them, and windows over them."""

from __future__ import annotations

from typing import TypedDict

import torch

from nnet3 import cn

Pair = int | tuple[int, int]  # a single number is for both axes


class _Window(TypedDict):
    window: Pair


class Options(_Window, total=False):
    stride: Pair
    pad: bool


ROWS, COLS, CHANNELS, SAMPLES = 5, 6, 2, 3
images = cn.input("images", ROWS * COLS * CHANNELS)
OPTIONS: list[Options] = [
    {"window": (2, 3)},
    {"window": 3, "pad": True},
    {"window": (5, 3), "pad": True},
    {"window": (2, 2), "stride": 2},
    {"window": (3, 2), "stride": (2, 1), "pad": True},
    {"window": (2, 3), "stride": (3, 2), "pad": True},
]


def as_torch(value: torch.Tensor) -> torch.Tensor:
    """D x S to (S, channels, rows, columns)."""
    return value.T.reshape(-1, ROWS, COLS, CHANNELS).permute(0, 3, 1, 2)


def as_columns(value: torch.Tensor) -> torch.Tensor:
    return value.permute(0, 2, 3, 1).reshape(len(value), -1).T


def pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


def margins(options: Options) -> tuple[int, int]:
    down, across = pair(options["window"])
    return (down // 2, across // 2) if options.get("pad") else (0, 0)
