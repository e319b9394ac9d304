"""States of several processes in one checkpoint: each gets its own back, what is equal is kept once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import nnet3
from nnet3.runs.checkpoints import Checkpoint, Checkpoints
from nnet3.runs.packing import same
from nnet3.runs.rank_states import States, join_states, own_state
from nnet3.runs.world import World

NNET = nnet3.Nnet.from_config("input-node name=input dim=2\noutput-node name=output input=input")


class _Replayed(World):
    """Processes one after the other: what the first one tells and the others send is remembered."""

    def __init__(self, rank: int, size: int, told: list[Any]):
        super().__init__(rank, size)
        self._told, self._next = told, 0
        self.sent: list[Any] = []

    def tell(self, value: Any) -> Any:
        if self.is_first:
            self._told.append(value)
            return value
        self._next += 1
        return self._told[self._next - 1]

    def gather(self, value: Any) -> list[Any]:
        self.sent.append(value)
        return [value] if self.is_first else []


def _state(rank: int) -> dict[str, Any]:
    return {"same": torch.arange(1000.0), "own": torch.tensor([float(rank)]), "position": rank, "more": [1] * rank}


def _joined(size: int) -> States:
    told: list[Any] = []
    worlds = [_Replayed(rank, size, told) for rank in range(size)]
    for rank, world in enumerate(worlds):
        join_states(world, _state(rank))
    return {f"rank-{rank}": world.sent[0] for rank, world in enumerate(worlds)}


def _saved(tmp_path: Path, states: States) -> Checkpoint:
    checkpoints = Checkpoints(tmp_path / "checkpoints", 1)
    checkpoints.prepare()
    checkpoints.save(1, {}, states, NNET)
    latest = checkpoints.latest()
    assert latest is not None
    return latest


def test_each_gets_its_own(tmp_path: Path) -> None:
    states = _joined(3)
    assert [len(tensors) for _, tensors in states.values()] == [2, 1, 1]
    checkpoint = _saved(tmp_path, states)
    told: list[Any] = []
    for rank in range(3):
        assert same(own_state(_Replayed(rank, 3, told), checkpoint), _state(rank))


def test_a_process_that_was_not_there_takes_the_first_ones(tmp_path: Path) -> None:
    checkpoint = _saved(tmp_path, join_states(World(), _state(0)))
    told: list[Any] = []
    for rank in range(2):
        assert same(own_state(_Replayed(rank, 2, told), checkpoint), _state(0))
