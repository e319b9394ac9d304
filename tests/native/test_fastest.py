"""The choice of products: by time, never of wrong numbers, and measured once for all processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nnet3.base.native import fastest as room
from nnet3.base.native.fastest import Fastest
from tests.call_count import count_calls_of
from tests.native.native_code import needs_native_code


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is measured is kept in a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "nnet3"


def exact(weights: Tensor) -> Callable[[Tensor, Tensor, Tensor], object]:
    return lambda x, y, bias: torch.addmm(bias, x, weights.T, out=y)


def wrong(weights: Tensor) -> Callable[[Tensor, Tensor, Tensor], object]:
    return lambda x, y, bias: torch.addmm(bias + 1, x, weights.T, out=y)


def missing(weights: Tensor) -> Callable[[Tensor, Tensor, Tensor], object]:
    raise AttributeError("this PyTorch has no such order")


def measured(times: dict[object, float], monkeypatch: pytest.MonkeyPatch) -> Fastest:
    """Returns the choice where products take these times, and PyTorch's 1."""

    def seconds(product: Callable[[], object], own: Callable[[], object]) -> list[float]:
        product()
        own()
        return [times[product.func.__qualname__.split(".")[0]], 1.0]  # type: ignore[attr-defined]

    monkeypatch.setattr(room, "_seconds", seconds)
    return room._measured({"panels": exact, "onednn": other}, {"panels": exact, "amx": other})


def other(weights: Tensor) -> Callable[[Tensor, Tensor, Tensor], object]:
    return lambda x, y, bias: torch.addmm(bias, x, weights.T, out=y)


@pytest.mark.parametrize(
    ("panels", "onednn", "chosen"),
    [(0.5, 0.7, Fastest("panels", "panels")), (0.9, 0.7, Fastest("onednn", "amx")), (0.99, 0.99, Fastest("", ""))],
)
def test_the_fastest_is_chosen_where_it_is_clearly_faster(
    panels: float, onednn: float, chosen: Fastest, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert measured({"exact": panels, "other": onednn}, monkeypatch) == chosen


def test_wrong_numbers_and_missing_functions_are_never_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_CLEARLY", 1e9)
    assert room._measured({"panels": wrong, "onednn": missing}, {"panels": wrong}) == Fastest("", "")
    assert room._measured({"panels": wrong, "onednn": exact}, {"amx": missing, "panels": exact}) == Fastest(
        "onednn", "panels"
    )


@needs_native_code
def test_what_was_measured_is_kept(folder: Path) -> None:
    """A later process reads; a damaged file is measured anew."""
    found = room.fastest.__wrapped__()
    (kept,) = folder.glob("products-*.measured")
    assert count_calls_of(room._measured, room.fastest.__wrapped__) == 0
    assert room.fastest.__wrapped__() == found
    kept.write_bytes(b"99")
    assert count_calls_of(room._measured, room.fastest.__wrapped__) == 1
    assert room.fastest.__wrapped__() == room.fastest.__wrapped__()


@needs_native_code
def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert isinstance(room.fastest.__wrapped__(), Fastest)
