"""Kinds of calls: each does to views what its name says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from nnet3.engine.runtime.calls import CALLS, opcode
from nnet3.engine.runtime.linker import Linker

A, B = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[10.0, 20.0], [30.0, 40.0]])


class Link:
    """Views 0 (to be written), 1 and 2, and one index."""

    fill_undefined = True

    def __init__(self) -> None:
        self.tensors = [torch.full((2, 2), 7.0), A.clone(), B.clone()]
        self.iterations = range(1)

    each, always = Linker.each, Linker.always

    def view(self, number: int) -> list[torch.Tensor]:
        return [self.tensors[number]]

    def views(self, numbers: Sequence[int]) -> list[list[torch.Tensor]]:
        return [[self.tensors[number] for number in numbers]]

    def index(self, number: int) -> torch.Tensor:
        return torch.tensor([1, 0])


def _result(kind: str, *args: int, number: float = 1.0) -> torch.Tensor:
    link: Any = Link()
    bound = CALLS[kind](link, args, number)
    assert bound is not None
    for run in bound:
        run()
    assert torch.equal(link.tensors[1], A) or args[0] == 1
    return link.tensors[args[0]]


@pytest.mark.parametrize(
    ("kind", "args", "number", "expected"),
    [
        ("zero", (0,), 1.0, torch.zeros(2, 2)),
        ("fill", (0,), 3.0, torch.full((2, 2), 3.0)),
        ("zero rows", (0, 0), 1.0, torch.zeros(2, 2)),
        ("scale", (0,), 2.0, torch.full((2, 2), 14.0)),
        ("copy", (0, 1), 1.0, A),
        ("scaled copy", (0, 1), 0.5, 0.5 * A),
        ("select rows", (0, 1, 0), 1.0, A[[1, 0]]),
        ("copy to rows", (0, 0, 1), 1.0, A[[1, 0]]),
        ("add", (0, 1), 1.0, 7 + A),
        ("scaled add", (0, 1), -2.0, 7 - 2 * A),
    ],
)
def test_what_calls_do(kind: str, args: tuple[int, ...], number: float, expected: torch.Tensor) -> None:
    assert torch.equal(_result(kind, *args, number=number), expected)


def test_memory_that_nobody_has_written_is_filled_when_that_is_asked_for() -> None:
    assert _result("undefined", 0).isnan().all()
    link: Any = Link()
    link.fill_undefined = False
    assert CALLS["undefined"](link, (0,), 1.0) is None


def test_pieces_one_below_the_other() -> None:
    link: Any = Link()
    link.tensors[0] = torch.zeros(4, 2)
    bound = CALLS["cat"](link, (0, 1, 2), 1.0)
    assert bound is not None
    for run in bound:
        run()
    assert torch.equal(link.tensors[0], torch.cat([A, B]))


def test_a_binder_is_registered_under_its_opcode(monkeypatch: pytest.MonkeyPatch) -> None:
    @opcode("of our own")
    def own(link: Any, args: Any, number: float) -> None:
        return None

    assert CALLS.pop("of our own") is own
